"""Clients that send their next request when their last one has ended."""

from __future__ import annotations

import heapq
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capsim.cost.constant import ConstantCost
from capsim.engine import EngineConfiguration
from capsim.engine.offload import Tier
from capsim.fleet import Failure, FleetConfiguration, Latencies, Outcome, RunLog
from capsim.fleet.simulation import simulate
from capsim.workload.prefixes import Prefixes
from capsim.workload.requests import Requests
from tests.fleet.workload import COST, ENGINE, check_conservation, lengths, requests_of, simultaneous

END, ARRIVE, BEGIN = range(3)
"""What happens at one instant, in this order: steps end, requests arrive, steps begin with all that is there."""

quarters = st.integers(0, 12).map(lambda count: count / 4)


def brute_force(
    count: int, concurrency: int, output: int, replicas: int, slots: int, inbound: float, outbound: float
) -> list[tuple[float, float, float, float]]:
    """Arrival, submission, first token and finish of equal requests whose steps take a second, step by step.

    Requests go to the replicas in turn. Nothing is shared with the product: one counter a request, one event a step.
    """
    left = count
    queues: list[list[list[float]]] = [[] for _ in range(replicas)]
    running: list[list[list[float]]] = [[] for _ in range(replicas)]
    busy = [False] * replicas
    events: list[tuple[float, int, int]] = []
    done: list[tuple[float, float, float, float]] = []
    turn = 0
    for _ in range(min(concurrency, count)):
        left -= 1
        heapq.heappush(events, (inbound, ARRIVE, -1))
    while events:
        now, kind, replica = heapq.heappop(events)
        if kind == END:
            busy[replica] = False
            for sequence in running[replica]:
                sequence[1] += 1
                sequence[2] = now if sequence[1] == 1 else sequence[2]
                if sequence[1] == output:
                    done.append((sequence[0] - inbound, sequence[0], sequence[2], now))
                    if left:
                        left -= 1
                        heapq.heappush(events, (now + outbound + inbound, ARRIVE, -1))
            running[replica] = [sequence for sequence in running[replica] if sequence[1] < output]
            heapq.heappush(events, (now, BEGIN, replica))
        elif kind == ARRIVE:
            queues[turn].append([now, 0, 0.0])
            heapq.heappush(events, (now, BEGIN, turn))
            turn = (turn + 1) % replicas
        elif not busy[replica]:
            while queues[replica] and len(running[replica]) < slots:
                running[replica].append(queues[replica].pop(0))
            if running[replica]:
                busy[replica] = True
                heapq.heappush(events, (now + 1.0, END, replica))
    return sorted(done)


def check_loop(log: RunLog, concurrency: int) -> None:
    """The first requests come at 0; each further one when one more has ended and its client has learnt of it."""
    rows = log.requests
    learnt = np.sort(rows.finish + log.latencies.outbound)
    assert np.all(rows.arrival[:concurrency] == 0.0)
    assert np.array_equal(rows.arrival[concurrency:], learnt[: max(0, len(learnt) - concurrency)])
    moments = np.concatenate([rows.arrival, rows.finish + log.latencies.outbound])
    change = np.concatenate([np.ones(len(rows.arrival)), -np.ones(len(rows.arrival))])
    order = np.lexsort((change, moments))  # an end comes before the request that it lets go
    in_flight = change[order].cumsum()
    assert in_flight.max() <= concurrency


@settings(max_examples=300, deadline=None)
@given(
    count=st.integers(1, 30),
    concurrency=st.integers(1, 9),
    output=st.integers(1, 6),
    replicas=st.integers(1, 3),
    slots=st.integers(1, 4),
    inbound=quarters,
    outbound=quarters,
)
def test_equal_requests_match_brute_force(
    count: int, concurrency: int, output: int, replicas: int, slots: int, inbound: float, outbound: float
) -> None:
    """Quarters of a second against steps of a second: completions, arrivals and step ends tie all the time."""
    fleet = FleetConfiguration(replicas, latencies=Latencies(gateway=inbound, detokenization=outbound))
    engine = EngineConfiguration(1000, max_num_seqs=slots)
    requests = simultaneous(count, prompt=1, output=output)
    log = simulate(requests, fleet, engine, ConstantCost(1.0), concurrency=concurrency)
    rows = log.requests
    mine = zip(rows.arrival, rows.submitted, rows.first_token, rows.finish, strict=True)
    expected = brute_force(count, concurrency, output, replicas, slots, inbound, outbound)
    assert sorted(tuple(map(float, row)) for row in mine) == expected
    check_loop(log, concurrency)
    check_conservation(log)


@settings(max_examples=200, deadline=None)
@given(
    rows=lengths,
    concurrency=st.integers(1, 9),
    replicas=st.integers(1, 3),
    router=st.sampled_from(["round_robin", "least_outstanding"]),
    inbound=st.sampled_from([0.0, 2.0**-8, 0.25, 1.0]),
    outbound=st.sampled_from([0.0, 2.0**-7, 0.5]),
    constant=st.booleans(),
)
def test_a_closed_loop_is_the_open_loop_of_its_own_arrivals(
    rows: list[tuple[float, int, int]],
    concurrency: int,
    replicas: int,
    router: str,
    inbound: float,
    outbound: float,
    constant: bool,
) -> None:
    """Whatever a closed loop sent, sent again at the same times without looking, is served in the same way."""
    fleet = FleetConfiguration(replicas, router, Latencies(gateway=inbound, detokenization=outbound))
    engine = replace(ENGINE, num_gpu_blocks=12, block_size=8, max_num_seqs=4, max_num_batched_tokens=16)
    cost = ConstantCost(2.0**-6) if constant else COST
    requests = requests_of(rows)
    log = simulate(requests, fleet, engine, cost, concurrency=concurrency)
    check_loop(log, concurrency)
    check_conservation(log)
    again = simulate(Requests(log.requests.arrival, requests.prompt, requests.output), fleet, engine, cost)
    for column, values in vars(log.requests).items():
        assert np.array_equal(values, getattr(again.requests, column)), column


def test_concurrency_beyond_the_requests_sends_them_all_at_once() -> None:
    log = simulate(simultaneous(5, 3, 4), FleetConfiguration(1), ENGINE, ConstantCost(1.0), concurrency=99)
    assert log.requests.finish.tolist() == [4.0] * 5


def test_a_rejected_request_lets_its_client_go_on() -> None:
    """One client: the rejection is known at 0.75, back at the client at 1.0, and the next one arrives at 1.75."""
    rows = [(0.0, 1, 1 << 20), (0.0, 1, 2), (0.0, 1, 1 << 20), (0.0, 1, 1)]
    fleet = FleetConfiguration(1, latencies=Latencies(gateway=0.75, detokenization=0.25))
    log = simulate(requests_of(rows), fleet, ENGINE, ConstantCost(1.0), concurrency=1)
    assert log.requests.outcome.tolist() == [Outcome.REJECTED, Outcome.COMPLETED] * 2
    assert log.requests.arrival.tolist() == [0.0, 1.0, 4.0, 5.0]
    assert log.requests.finish[[1, 3]].tolist() == [3.75, 6.75]


def test_clients_go_on_when_a_replica_dies() -> None:
    """Two of four clients are on the replica that dies: they try again on the other, and all 40 requests end."""
    fleet = FleetConfiguration(2, failures=(Failure(0, at=5.5),))
    log = simulate(simultaneous(40, 1, 4), fleet, ENGINE, ConstantCost(1.0), concurrency=4)
    assert np.all(log.requests.outcome == Outcome.COMPLETED)
    assert np.flatnonzero(log.requests.attempts == 2).tolist() == [4, 6]
    check_loop(log, 4)
    check_conservation(log)


def test_clients_go_on_when_a_replica_dies_as_their_answers_arrive() -> None:
    """The step that ends at the very instant of the failure has ended: both answers count, both clients go on."""
    fleet = FleetConfiguration(2, failures=(Failure(0, at=4.0),))
    log = simulate(simultaneous(40, 1, 4), fleet, ENGINE, ConstantCost(1.0), concurrency=4)
    assert np.all(log.requests.outcome == Outcome.COMPLETED)
    assert np.all(log.requests.attempts == 1)
    assert log.requests.finish.max() == 40.0  # four clients, ten requests each, four seconds a request
    check_loop(log, 4)
    check_conservation(log)


@pytest.mark.parametrize("retries", [0, 1])
def test_a_lost_request_lets_its_client_go_on(retries: int) -> None:
    fleet = FleetConfiguration(1, max_retries=retries, model_load_time=1.0, failures=(Failure(0, 1.5, 1.0),))
    late = Latencies(network=4.0)
    log = simulate(
        simultaneous(3, 1, 10), replace(fleet, latencies=late), ENGINE, ConstantCost(1.0), concurrency=1
    )
    assert log.requests.arrival[0] == 0.0
    assert log.requests.outcome.tolist() == [Outcome.COMPLETED] * 3  # in the network when the replica died
    hit = FleetConfiguration(1, max_retries=retries, model_load_time=1.0, failures=(Failure(0, 6.5, 1.0),))
    log = simulate(
        simultaneous(3, 1, 10), replace(hit, latencies=late), ENGINE, ConstantCost(1.0), concurrency=1
    )
    assert log.requests.outcome.tolist() == [Outcome.LOST, Outcome.COMPLETED, Outcome.COMPLETED]
    assert log.requests.arrival.tolist() == [0.0, 10.5, 28.5]
    assert log.lost_tokens == 2
    check_conservation(log)


def test_a_closed_loop_twice_is_the_same() -> None:
    rows = [(0.0, 1 + 7 * i % 300, 1 + 13 * i % 50) for i in range(300)]
    fleet = FleetConfiguration(3, "least_outstanding", Latencies(network=0.003))
    first, second = (simulate(requests_of(rows), fleet, ENGINE, COST, concurrency=17) for _ in range(2))
    assert first.requests.finish.tolist() == second.requests.finish.tolist()
    assert first.events == second.events


def test_a_client_whose_prompt_is_read_from_a_tier_is_waited_for() -> None:
    """One client, steps of a second, a pool of two blocks: the second request drives out the first one's.

    The third has the prompt of the first. It reads one of its two blocks in 0.5 s, and computes the other; nothing runs
    meanwhile, so that the replica has to be woken.
    """
    engine = EngineConfiguration(
        3, block_size=4, max_num_seqs=1, enable_prefix_caching=True, tiers=(Tier("host", 100, 0.5),)
    )
    prefixes = Prefixes(np.arange(4), np.array([0, 1, 0]), np.array([8, 7, 8]))
    requests = replace(simultaneous(3, 8, 1), prefixes=prefixes)
    log = simulate(requests, FleetConfiguration(1), engine, ConstantCost(1.0), concurrency=1)
    assert log.requests.finish.tolist() == [1.0, 2.0, 3.5]
    assert log.requests.loaded.tolist() == [0, 0, 4]
