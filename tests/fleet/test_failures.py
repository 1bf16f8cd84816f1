"""Replicas that die: what is lost, what is tried again, and when a replica serves again."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capsim.cost.constant import ConstantCost
from capsim.fleet import Failure, FleetConfiguration, Outcome, ReplicaState, RunLog
from capsim.fleet.simulation import simulate
from tests.fleet.workload import COST, ENGINE, check_conservation, poisson, requests_of

SECOND = ConstantCost(1.0)
UP, DOWN, LOADING = ReplicaState.UP, ReplicaState.DOWN, ReplicaState.LOADING


def run(rows: list[tuple[float, int, int]], fleet: FleetConfiguration) -> RunLog:
    log = simulate(requests_of(rows), fleet, ENGINE, SECOND)
    check_conservation(log)
    return log


def states(log: RunLog, replica: int = 0) -> list[tuple[float, ReplicaState]]:
    return [(change.time, change.state) for change in log.states if change.replica == replica]


def test_what_was_in_flight_starts_again_on_another_replica() -> None:
    """Two whole steps are done at 2.5; the other replica takes the request in at its boundary at 3.25."""
    log = run([(0.0, 5, 10), (0.25, 5, 10)], FleetConfiguration(2, failures=(Failure(0, 2.5),)))
    rows = log.requests
    assert rows.attempts.tolist() == [2, 1]
    assert rows.replica.tolist() == [1, 1]
    assert (rows.arrival[0], rows.submitted[0], rows.scheduled[0]) == (0.0, 2.5, 3.25)
    assert (rows.first_token[0], rows.finish[0]) == (4.25, 13.25)
    assert rows.finish[1] == 10.25
    assert log.lost_tokens == 2
    assert log.leaps.steps[log.leaps.replica == 0].sum() == 2
    assert states(log) == [(0.0, UP), (2.5, DOWN)]
    assert states(log, 1) == [(0.0, UP)]


def test_the_waiting_start_again_too() -> None:
    rows = [(0.0, 5, 10)] * 2 + [(0.5, 5, 1)] * 2
    log = simulate(
        requests_of(rows),
        FleetConfiguration(2, failures=(Failure(0, 0.75),)),
        ENGINE,
        SECOND,
    )
    assert log.requests.attempts.tolist() == [2, 1, 2, 1]
    assert log.requests.finish.tolist() == [11.0, 10.0, 2.0, 2.0]
    assert log.lost_tokens == 0
    assert log.leaps.steps[log.leaps.replica == 0].sum() == 0


def test_without_retries_it_is_lost() -> None:
    fleet = FleetConfiguration(2, max_retries=0, failures=(Failure(0, 2.5),))
    log = run([(0.0, 5, 10), (0.25, 5, 10)], fleet)
    assert log.requests.outcome.tolist() == [Outcome.LOST, Outcome.COMPLETED]
    assert log.requests.first_token[0] == 1.0  # the user has seen two tokens
    assert np.isnan(log.requests.finish[0])
    assert log.requests.attempts.tolist() == [1, 1]


@pytest.mark.parametrize(("max_retries", "outcome"), [(1, Outcome.LOST), (2, Outcome.COMPLETED)])
def test_retries_are_spent_one_replica_at_a_time(max_retries: int, outcome: Outcome) -> None:
    failures = (Failure(0, 2.5), Failure(1, 5.0))
    log = run([(0.0, 5, 10)], FleetConfiguration(3, max_retries=max_retries, failures=failures))
    assert log.requests.outcome.tolist() == [outcome]
    assert log.requests.attempts.tolist() == [max_retries + 1]
    assert log.lost_tokens == 2 + 2


def test_no_replica_up_means_lost() -> None:
    log = run([(0.0, 5, 10), (3.0, 5, 10)], FleetConfiguration(1, failures=(Failure(0, 2.5),)))
    assert log.requests.outcome.tolist() == [Outcome.LOST, Outcome.LOST]
    assert log.requests.attempts.tolist() == [1, 0]
    assert log.requests.replica.tolist() == [0, -1]


def test_a_replica_loads_its_model_before_it_returns() -> None:
    fleet = FleetConfiguration(1, model_load_time=5.0, failures=(Failure(0, 2.0, down_for=3.0),))
    log = run([(1.0, 1, 1), (2.0, 1, 1), (6.0, 1, 1), (9.75, 1, 1), (10.25, 1, 1)], fleet)
    done, lost = Outcome.COMPLETED, Outcome.LOST
    assert log.requests.outcome.tolist() == [done, lost, lost, lost, done]
    assert log.requests.finish[[0, 4]].tolist() == [2.0, 11.25]
    assert states(log) == [(0.0, UP), (2.0, DOWN), (5.0, LOADING), (10.0, UP)]


def test_the_router_passes_over_what_is_not_up() -> None:
    fleet = FleetConfiguration(3, model_load_time=2.0, failures=(Failure(1, 2.5, down_for=2.0),))
    log = run([(float(i), 1, 1) for i in range(12)], fleet)
    served = log.requests.replica
    assert 1 in served[:3]
    assert 1 not in served[3:7]  # down at 2.5, loading at 4.5, up at 6.5
    assert 1 in served[7:]
    assert np.all(log.requests.attempts == 1)


def test_a_second_failure_while_loading_starts_the_repair_anew() -> None:
    failures = (Failure(0, 1.0, down_for=1.0), Failure(0, 4.0, down_for=3.0))
    log = run([(20.0, 1, 1)], FleetConfiguration(1, model_load_time=5.0, failures=failures))
    assert states(log) == [(0.0, UP), (1.0, DOWN), (2.0, LOADING), (4.0, DOWN), (7.0, LOADING), (12.0, UP)]


def test_a_replica_that_dies_for_good_while_loading_stays_down() -> None:
    failures = (Failure(0, 1.0, down_for=1.0), Failure(0, 4.0))
    log = run([(20.0, 1, 1)], FleetConfiguration(1, model_load_time=5.0, failures=failures))
    assert states(log) == [(0.0, UP), (1.0, DOWN), (2.0, LOADING), (4.0, DOWN)]
    assert log.requests.outcome.tolist() == [Outcome.LOST]


def test_an_idle_replica_can_die() -> None:
    log = run([(5.0, 1, 1)], FleetConfiguration(2, failures=(Failure(0, 1.0),)))
    assert log.requests.replica.tolist() == [1]
    assert log.lost_tokens == 0


def test_a_failure_after_the_last_request_changes_no_request() -> None:
    requests = poisson(200, rate=50, seed=1)
    calm = simulate(requests, FleetConfiguration(2), ENGINE, COST)
    late = simulate(requests, FleetConfiguration(2, failures=(Failure(1, 1000.0),)), ENGINE, COST)
    assert late.requests.finish.tolist() == calm.requests.finish.tolist()
    assert late.end == calm.end


def test_events_depend_on_the_failures_not_on_the_requests() -> None:
    fleet = FleetConfiguration(3, failures=(Failure(0, 3.0, 1.0), Failure(1, 4.0, 1.0)), model_load_time=2.0)
    few, many = (simulate(poisson(n, rate=30, seed=2), fleet, ENGINE, COST).events for n in (500, 5000))
    assert few == many < 20


failures = st.builds(
    Failure,
    replica=st.integers(0, 2),
    at=st.integers(0, 100).map(lambda count: count / 16),
    down_for=st.none() | st.sampled_from([0.0, 0.5, 2.0]),
)


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 1000),
    dying=st.lists(failures, max_size=5),
    max_retries=st.integers(0, 2),
    router=st.sampled_from(["round_robin", "least_outstanding"]),
    concurrency=st.none() | st.integers(1, 20),
)
def test_each_request_ends_once_whatever_dies(
    seed: int, dying: list[Failure], max_retries: int, router: str, concurrency: int | None
) -> None:
    requests = poisson(120, rate=20, seed=seed)
    fleet = FleetConfiguration(3, router, model_load_time=0.5, max_retries=max_retries, failures=tuple(dying))
    log = simulate(requests, fleet, ENGINE, COST, concurrency=concurrency)
    again = simulate(requests, fleet, ENGINE, COST, concurrency=concurrency)
    check_conservation(log)
    rows = log.requests
    ended = (rows.outcome == Outcome.COMPLETED) | (rows.outcome == Outcome.LOST)
    assert np.all(ended)
    assert rows.attempts.max() <= max_retries + 1
    assert np.array_equal(rows.finish, again.requests.finish, equal_nan=True)
    for replica in range(3):
        mine = [(change.time, change.state) for change in log.states if change.replica == replica]
        down = [
            (start, mine[i + 1][0] if i + 1 < len(mine) else np.inf)
            for i, (start, state) in enumerate(mine)
            if state != UP
        ]
        finish = rows.finish[rows.replica == replica]
        assert not any(((finish > start) & (finish <= end)).any() for start, end in down)
