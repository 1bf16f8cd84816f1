"""Requests that wait at the gateway, and those that it turns away."""

from __future__ import annotations

from dataclasses import replace
from heapq import heapify, heappop, heappush

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capsim.cost.constant import ConstantCost
from capsim.engine import EngineConfiguration
from capsim.fleet import Failure, FleetConfiguration, FlowControl, Latencies, Outcome, RunLog
from capsim.fleet.simulation import simulate
from capsim.measure.conservation import check_conservation
from capsim.measure.latency import TtftParts, user_latencies
from capsim.workload.requests import Requests
from tests.fleet.workload import COST, ENGINE, poisson, requests_of, simultaneous

SECOND = ConstantCost(1.0)
ONE_TOKEN = EngineConfiguration(1 << 20, max_num_seqs=64)
LATENCIES = Latencies(network=0.125, gateway=0.25, tokenization=0.0625, detokenization=0.0625)

jobs = st.lists(
    st.tuples(st.integers(0, 40).map(lambda tick: tick / 4), st.integers(1, 9)), min_size=1, max_size=30
)
"""Arrivals in quarters of a second, and how many steps of a second each takes."""


def steps_of(rows: list[tuple[float, int]]) -> Requests:
    """Requests with a prompt of one token in order of arrival, distinct by far less than a quarter of a second.

    Who is first of two at one instant is nobody's promise.
    """
    arrivals = [(time + place * 2.0**-20, steps) for place, (time, steps) in enumerate(sorted(rows))]
    return requests_of([(time, 1, steps) for time, steps in arrivals])


def served(requests: Requests, replicas: int, control: FlowControl | None, **fleet: object) -> RunLog:
    configuration = replace(FleetConfiguration(replicas, gateway=control), **fleet)  # type: ignore[arg-type]
    log = simulate(requests, configuration, ONE_TOKEN, SECOND)
    check_conservation(log)
    return log


def several_servers(requests: Requests, servers: int) -> list[float]:
    """When each begins with several servers and one queue, by Kiefer and Wolfowitz's recursion."""
    free = [0.0] * servers
    heapify(free)
    begins = []
    for arrival, steps in zip(requests.arrival.tolist(), requests.output.tolist(), strict=True):
        begins.append(max(arrival, heappop(free)))
        heappush(free, begins[-1] + steps)
    return begins


def with_losses(requests: Requests, servers: int, places: int) -> list[bool]:
    """Which requests find all servers busy and all places of the queue taken."""
    free = [0.0] * servers
    begins: list[float] = []
    turned_away = []
    for arrival, steps in zip(requests.arrival.tolist(), requests.output.tolist(), strict=True):
        waiting = sum(begin > arrival for begin in begins)
        busy = sum(end > arrival for end in free)
        turned_away.append(busy == servers and waiting >= places)
        if not turned_away[-1]:
            begins.append(max(arrival, heappop(free)))
            heappush(free, begins[-1] + steps)
    return turned_away


@settings(deadline=None)
@given(jobs, st.integers(1, 4), st.sampled_from(["round_robin", "least_outstanding"]))
def test_one_request_a_replica_is_one_queue_before_several_servers(
    rows: list[tuple[float, int]], replicas: int, router: str
) -> None:
    requests = steps_of(rows)
    log = served(requests, replicas, FlowControl(1), router=router)
    begins = several_servers(requests, replicas)
    assert log.requests.scheduled.tolist() == begins
    assert log.requests.submitted.tolist() == begins
    assert log.requests.held.tolist() == (np.array(begins) - requests.arrival).tolist()


@settings(deadline=None)
@given(jobs, st.integers(1, 4), st.integers(0, 5))
def test_a_full_queue_turns_requests_away(rows: list[tuple[float, int]], replicas: int, places: int) -> None:
    requests = steps_of(rows)
    log = served(requests, replicas, FlowControl(1, places))
    rejected = log.requests.outcome == Outcome.REJECTED
    assert rejected.tolist() == with_losses(requests, replicas, places)
    assert (log.requests.attempts[rejected] == 0).all()


@pytest.mark.parametrize("router", ["round_robin", "least_outstanding"])
@pytest.mark.parametrize("seed", range(5))
def test_a_limit_that_nobody_reaches_changes_nothing(router: str, seed: int) -> None:
    requests = poisson(300, 60.0, seed)
    fleet = FleetConfiguration(3, router=router, latencies=LATENCIES)
    free = simulate(requests, fleet, ENGINE, COST)
    wide = simulate(requests, replace(fleet, gateway=FlowControl(300)), ENGINE, COST)
    for name in vars(free.requests):
        assert np.array_equal(getattr(free.requests, name), getattr(wide.requests, name), equal_nan=True), (
            name
        )


@pytest.mark.parametrize("limit", [1, 3, 8])
@pytest.mark.parametrize("seed", range(3))
def test_no_replica_holds_more_than_the_limit_and_the_parts_of_ttft_add_up(limit: int, seed: int) -> None:
    requests = poisson(300, 100.0, seed)
    fleet = FleetConfiguration(2, latencies=LATENCIES, gateway=FlowControl(limit))
    log = simulate(requests, fleet, ENGINE, COST)
    check_conservation(log)
    rows = log.requests
    for replica in range(2):
        here = rows.replica == replica
        for time in rows.submitted[here]:
            assert ((rows.submitted <= time) & (rows.finish > time) & here).sum() <= limit
    assert rows.held.max() > 0
    parts = TtftParts(log)
    assert (parts.cold_state == 0).all()
    assert parts.network_and_gateway == pytest.approx(0.375 + rows.held)
    observed = rows.first_token + LATENCIES.outbound - rows.arrival
    assert user_latencies(log).ttft == pytest.approx(observed, abs=1e-9)  # a nanosecond: sums round


def test_the_gateway_heeds_priorities_where_the_engine_does() -> None:
    requests = requests_of([(place * 0.125, 1, 4) for place in range(5)])
    requests = replace(requests, priority=np.array([0, 3, 2, 1, 0]))
    fleet = FleetConfiguration(1, gateway=FlowControl(1))
    in_turn = simulate(requests, fleet, ONE_TOKEN, SECOND)
    assert in_turn.requests.scheduled.tolist() == [0, 4, 8, 12, 16]
    by_priority = simulate(requests, fleet, replace(ONE_TOKEN, scheduling_policy="priority"), SECOND)
    assert by_priority.requests.scheduled.tolist() == [0, 16, 12, 8, 4]


def test_a_repaired_replica_takes_from_the_queue_at_once() -> None:
    requests = requests_of([(0.0, 1, 8), (0.25, 1, 8), (0.5, 1, 8)])
    failures = (Failure(1, at=2.5, down_for=1.0),)
    log = served(requests, 2, FlowControl(1), failures=failures, model_load_time=0.5)
    assert log.requests.submitted.tolist() == [0.0, 4.0, 8.0]
    assert log.requests.held.tolist() == [0.0, 1.5, 7.5]
    assert log.requests.attempts.tolist() == [1, 2, 1]
    assert TtftParts(log).cold_state.tolist() == [0.0, 2.25, 0.0]


def test_requests_that_wait_are_lost_with_the_last_replica() -> None:
    requests = requests_of([(0.0, 1, 8), (0.25, 1, 8), (0.5, 1, 8)])
    log = served(requests, 1, FlowControl(1), failures=(Failure(0, at=2.5),))
    assert log.requests.outcome.tolist() == [Outcome.LOST] * 3
    assert log.requests.attempts.tolist() == [1, 0, 0]


@pytest.mark.parametrize("clients", [1, 2, 3, 7])
def test_clients_that_wait_for_answers_keep_waiting_at_the_gateway(clients: int) -> None:
    """Two servers are never idle while a third client is there: the work ends as early as two can end it."""
    fleet = FleetConfiguration(2, gateway=FlowControl(1))
    log = simulate(simultaneous(30, 1, 4), fleet, ONE_TOKEN, SECOND, concurrency=clients)
    check_conservation(log)
    assert log.requests.finish.max() == 30 * 4 / min(2, clients)


def test_a_client_that_is_turned_away_goes_on() -> None:
    fleet = FleetConfiguration(1, gateway=FlowControl(1, 0))
    log = simulate(simultaneous(10, 1, 4), fleet, ONE_TOKEN, SECOND, concurrency=2)
    check_conservation(log)
    assert (log.requests.outcome != Outcome.UNFINISHED).all()
    assert (log.requests.outcome == Outcome.REJECTED).any()
