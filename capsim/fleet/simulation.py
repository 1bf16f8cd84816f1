from __future__ import annotations

import math
from collections.abc import Generator
from typing import Any

import numpy as np
import simpy

from capsim.cost.step import StepCost
from capsim.engine import EngineConfiguration, Replica, Sequence
from capsim.engine.sequence import NO_PATH, Path
from capsim.fleet.completions import Completions
from capsim.fleet.configuration import Failure, FleetConfiguration
from capsim.fleet.gateway import Gateway
from capsim.fleet.log import LeapColumns, Outcome, ReplicaState, RunLog, TierTraffic
from capsim.fleet.request_record import MOST_ENDED, RequestRecord, scalars
from capsim.fleet.router import ROUTERS
from capsim.fleet.server import Server
from capsim.workload.requests import Requests


def simulate(
    requests: Requests,
    fleet: FleetConfiguration,
    engine: EngineConfiguration,
    cost: StepCost,
    *,
    concurrency: int | None = None,
) -> RunLog:
    """Serve the requests to their end and return what was recorded.

    Args:
        requests: what the clients send.
        fleet: replicas, router, latencies, failures.
        engine: every replica's configuration.
        cost: every replica's step cost.
        concurrency: None for an open loop (requests come at their arrival times); else a closed loop: so many clients
            each send the next request of the list as soon as their last one ended, and arrival times are ignored.
    """
    return _Simulation(requests, fleet, engine, cost, concurrency).run()


def _no_path(row: int) -> Path:  # noqa: ARG001
    """Of requests that share nothing."""
    return NO_PATH


def _whole(path: Path, row: int, prompt: int) -> Path:
    """The path of one request's sequences, which share its whole prompt."""
    return path if path and path[-1][1] == prompt else (*path, (-1 - row, prompt))


class _Simulation:
    """One run: owns the clock, the servers and the row of every request."""

    def __init__(
        self,
        requests: Requests,
        fleet: FleetConfiguration,
        engine: EngineConfiguration,
        cost: StepCost,
        concurrency: int | None,
    ) -> None:
        self._requests = requests
        self._fleet = fleet
        self._engine = engine
        self._concurrency = concurrency
        self._environment = simpy.Environment()
        control = fleet.gateway
        most = math.inf if control is None else control.max_outstanding
        self._servers = [Server(index, Replica(engine, cost), most) for index in range(fleet.replicas)]
        self._router = ROUTERS[fleet.router]()
        self._record = record = RequestRecord(requests, closed=concurrency is not None)
        self._prompt, self._output = scalars(requests.prompt), scalars(requests.output)
        self._admitted = scalars(engine.admits(requests.prompt, requests.output))
        self._path = _no_path if requests.prefixes is None else requests.prefixes.path
        self._priority = None if requests.priority is None else scalars(requests.priority)
        self._samples = requests.samples
        self._arrival, self._attempts = scalars(record.arrival), scalars(record.attempts)
        self._replicas, self._outcomes = scalars(record.replica), scalars(record.outcome)
        self._sent = self._lost_tokens = self._lost_first_tokens = 0
        self._events = 0
        priorities = self._priority if engine.by_priority else None
        self._gateway = None if control is None else Gateway(control, len(requests), priorities)
        driven = concurrency is not None or control is not None
        self._completions = Completions(self._environment, self._servers, self._deliver) if driven else None

    def run(self) -> RunLog:
        """Run to the end of all requests."""
        environment = self._environment
        for failure in self._fleet.failures:
            environment.process(self._fail(failure))
        if self._concurrency is None:
            environment.process(self._arrivals())
        else:
            self._start_clients(self._concurrency)
        while environment.peek() < math.inf:
            environment.step()
            self._events += 1
        for server in self._servers:
            server.replica.advance(math.inf)
            self._collect(server)
        return self._log()

    # Clients

    def _arrivals(self) -> Generator[simpy.Event, Any, None]:
        """Open loop. All arrivals before the next event of anybody else are handed over at once."""
        environment = self._environment
        times = scalars(self._record.arrival + self._fleet.latencies.inbound)
        row, count = 0, len(times)
        while row < count:
            if times[row] > environment.now:
                yield environment.timeout(times[row] - environment.now)
            others = environment.peek()
            self._dispatch(row, times[row])
            row += 1
            if self._completions is not None:
                others = environment.peek()  # a request may end before the next one comes
            while row < count and times[row] < others:
                self._dispatch(row, times[row])
                row += 1
                if self._completions is not None:
                    others = environment.peek()

    def _start_clients(self, concurrency: int) -> None:
        for _ in range(min(concurrency, len(self._requests))):
            self._send_next(0.0)

    def _send_next(self, time: float) -> None:
        """A closed-loop client submits the next request of the list at `time`."""
        row = self._sent
        if row >= len(self._requests):
            return
        self._sent += 1
        self._arrival[row] = time
        arrival = time + self._fleet.latencies.inbound
        if arrival <= self._environment.now:
            self._dispatch(row, arrival)
        else:
            timeout = self._environment.timeout(arrival - self._environment.now)
            timeout.callbacks.append(lambda _: self._dispatch(row, arrival))

    def _deliver(self, server: Server) -> None:
        finished = server.replica.finished
        time = max((sequence.finish for sequence in finished), default=0.0)
        for sequence in finished:
            if not self._record.end(sequence):
                continue
            if self._gateway is not None:
                server.in_flight -= 1
            if self._concurrency is not None:
                self._send_next(sequence.finish + self._fleet.latencies.outbound)
        finished.clear()
        self._release(time)

    def _collect(self, server: Server) -> None:
        """Record what has ended there, where nobody waits for it."""
        for sequence in server.replica.finished:
            self._record.end(sequence)
        server.replica.finished.clear()

    # Gateway

    def _dispatch(self, row: int, time: float) -> None:
        """Hand a request to a replica at `time`, let it wait at the gateway, or end it."""
        if not self._admitted[row]:
            self._end(row, Outcome.REJECTED, time)
            return
        server = self._router.pick(self._servers, time)
        if server is not None:
            self._hand_over(row, server, time)
        elif self._gateway is None or not any(server.up for server in self._servers):
            self._end(row, Outcome.LOST, time)
        elif not self._gateway.hold(row, time):
            self._end(row, Outcome.REJECTED, time)

    def _release(self, time: float) -> None:
        """Hand waiting requests over while a replica takes one."""
        while self._gateway:
            server = self._router.pick(self._servers, time)
            if server is None:
                return
            self._hand_over(self._gateway.release(time), server, time)

    def _hand_over(self, row: int, server: Server, time: float) -> None:
        if self._gateway is not None:
            server.in_flight += 1
        self._replicas[row] = server.index
        self._attempts[row] += 1
        prompt, output, path = self._prompt[row], self._output[row], self._path(row)
        priority = 0 if self._priority is None else self._priority[row]
        if self._samples > 1:
            path = _whole(path, row, prompt)
        sequences = [Sequence(row, prompt, output, time, path, priority) for _ in range(self._samples)]
        self._record.begin(row, sequences)
        for sequence in sequences:
            server.replica.submit(sequence, time)
        if self._completions is not None:
            self._completions.moved(server)
        elif len(server.replica.finished) >= MOST_ENDED:
            self._collect(server)

    def _end(self, row: int, outcome: Outcome, time: float) -> None:
        """End a request without an answer; a closed-loop client goes on with its next one."""
        self._outcomes[row] = int(outcome)
        if self._concurrency is not None:
            timeout = self._environment.timeout(max(0.0, time - self._environment.now))
            timeout.callbacks.append(lambda _: self._send_next(time + self._fleet.latencies.outbound))

    # Failures

    def _fail(self, failure: Failure) -> Generator[simpy.Event, Any, None]:
        environment, server = self._environment, self._servers[failure.replica]
        yield environment.timeout(failure.at)
        lost = server.fail(environment.now)
        if self._completions is not None:
            self._completions.moved(server)
        rows = self._lost_rows(lost)
        if self._gateway is not None:
            server.in_flight -= len(rows)
        for row in rows:
            if self._attempts[row] > self._fleet.max_retries:
                self._end(row, Outcome.LOST, environment.now)
            else:
                self._dispatch(row, environment.now)
        if self._gateway is not None and not any(server.up for server in self._servers):
            for row in self._gateway.give_up():
                self._end(row, Outcome.LOST, environment.now)
        if failure.down_for is None:
            return
        changes = len(server.changes)
        yield environment.timeout(failure.down_for)
        if len(server.changes) > changes:
            return  # it died again, and that failure's repair is the one that counts
        server.enter(ReplicaState.LOADING, environment.now)
        yield environment.timeout(self._fleet.model_load_time)
        if len(server.changes) > changes + 1:
            return
        server.enter(ReplicaState.UP, environment.now)
        self._release(environment.now)

    def _lost_rows(self, lost: list[Sequence]) -> list[int]:
        """Requests that lost a sequence, each once; what their other sequences have generated is lost too."""
        rows = list(dict.fromkeys(sequence.request for sequence in lost))
        if self._samples > 1:
            for row in rows:
                for sequence in self._record.sequences(row):
                    if not math.isnan(sequence.finish):
                        self._lost_tokens += sequence.output
                        self._lost_first_tokens += 1
        return rows

    # Log

    def _log(self) -> RunLog:
        replicas = [server.replica for server in self._servers]
        count, gateway = len(self._requests), self._gateway
        requests = self._record.columns(
            np.broadcast_to(0.0, count) if gateway is None else np.array(gateway.waited)
        )
        ends = requests.finish[~np.isnan(requests.finish)]
        return RunLog(
            requests=requests,
            leaps=LeapColumns.of([replica.leaps() for replica in replicas]),
            resumed_gaps=np.concatenate([np.asarray(replica.resumed_gaps, float) for replica in replicas]),
            states=tuple(change for server in self._servers for change in server.changes),
            latencies=self._fleet.latencies,
            gateway=self._fleet.gateway,
            end=float(np.concatenate([ends, requests.arrival]).max(initial=0.0)),
            pool_blocks=self._engine.usable_blocks,
            block_size=self._engine.block_size,
            evictions=np.array([replica.evicted for replica in replicas], dtype=np.int64),
            tiers=tuple(map(TierTraffic.of, zip(*(replica.tiers for replica in replicas), strict=True))),
            blocks_left=sum(replica.blocks for replica in replicas),
            samples=self._samples,
            lost_tokens=sum(replica.lost_tokens for replica in replicas) + self._lost_tokens,
            lost_first_tokens=sum(replica.lost_first_tokens for replica in replicas)
            + self._lost_first_tokens,
            events=self._events,
        )
