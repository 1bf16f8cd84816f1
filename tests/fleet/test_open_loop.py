"""Requests that come at their own times, through latencies and a router, to replicas that do not fail."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from capsim.cost.constant import ConstantCost
from capsim.engine import EngineConfiguration, Replica, Sequence
from capsim.fleet import FleetConfiguration, Latencies, Outcome, ReplicaState, RunLog
from capsim.fleet.simulation import simulate
from capsim.workload.requests import Requests
from tests.engine.replicas import leap_table
from tests.fleet.workload import COST, ENGINE, check_conservation, poisson, requests_of

SECOND = ConstantCost(1.0)


def same(log: RunLog, other: RunLog) -> bool:
    """Whether two logs agree in every column, bit by bit."""
    return all(
        np.array_equal(mine, theirs, equal_nan=mine.dtype.kind == "f")
        for table in ("requests", "leaps")
        for mine, theirs in zip(
            vars(getattr(log, table)).values(), vars(getattr(other, table)).values(), strict=True
        )
    )


def test_one_replica_is_the_engine_alone() -> None:
    requests = poisson(500, rate=40, seed=1)
    log = simulate(requests, FleetConfiguration(1), ENGINE, COST)
    replica = Replica(ENGINE, COST)
    rows = zip(requests.arrival.tolist(), requests.prompt.tolist(), requests.output.tolist(), strict=True)
    sequences = [Sequence(i, prompt, output, t) for i, (t, prompt, output) in enumerate(rows)]
    for sequence in sequences:
        replica.submit(sequence, sequence.submitted)
    replica.advance(math.inf)
    assert log.requests.finish.tolist() == [sequence.finish for sequence in sequences]
    assert log.requests.first_token.tolist() == [sequence.first_token for sequence in sequences]
    assert log.leaps.start.tolist() == leap_table(replica)[:, 0].tolist()
    assert log.end == log.requests.finish.max()
    check_conservation(log)


@pytest.mark.parametrize("router", ["round_robin", "least_outstanding"])
def test_conservation_under_preemption(router: str) -> None:
    starved = replace(ENGINE, num_gpu_blocks=40)
    log = simulate(poisson(2000, rate=60, seed=2), FleetConfiguration(3, router), starved, COST)
    assert log.requests.preemptions.sum() > 100
    assert np.all(log.requests.attempts == 1)
    assert log.lost_tokens == 0
    assert np.all(log.requests.outcome == Outcome.COMPLETED)
    check_conservation(log)


def test_inbound_latency_shifts_what_the_engine_sees() -> None:
    """A constant shift of all arrivals shifts everything after them; powers of two, so without rounding."""
    latencies = Latencies(network=0.5, gateway=0.25, tokenization=0.125, detokenization=8.0, stream_flush=4.0)
    assert (latencies.inbound, latencies.outbound) == (0.875, 12.5)
    random = np.random.default_rng(3)
    rows = [(float(t) / 64, 50, 9) for t in np.sort(random.integers(0, 640, 200))]
    plain = simulate(requests_of(rows), FleetConfiguration(2), ENGINE, COST)
    shifted = simulate(requests_of(rows), FleetConfiguration(2, latencies=latencies), ENGINE, COST)
    assert np.array_equal(shifted.requests.arrival, plain.requests.arrival)
    for column in ("submitted", "scheduled", "first_token", "finish"):
        assert np.array_equal(getattr(shifted.requests, column), getattr(plain.requests, column) + 0.875)
    assert shifted.latencies == latencies


def test_round_robin_takes_each_replica_in_turn() -> None:
    log = simulate(poisson(100, rate=40, seed=4), FleetConfiguration(3), ENGINE, COST)
    assert log.requests.replica.tolist() == [i % 3 for i in range(100)]


def test_least_outstanding_avoids_the_busy_replica() -> None:
    """The first request occupies replica 0 for 30 s; what ends before the next arrives leaves 1 and 2 in turn."""
    rows = [(0.0, 1, 30), (0.5, 1, 2), (1.5, 1, 2), (4.0, 1, 2), (6.25, 1, 2), (8.5, 1, 2)]
    log = simulate(requests_of(rows), FleetConfiguration(3, "least_outstanding"), ENGINE, SECOND)
    assert log.requests.replica[0] == 0
    assert set(log.requests.replica[1:].tolist()) == {1, 2}
    assert log.requests.replica[1] != log.requests.replica[2]


def test_least_outstanding_sees_an_end_at_that_very_instant() -> None:
    rows = [(0.0, 1, 2), (0.5, 1, 30), (2.0, 1, 1)]
    log = simulate(requests_of(rows), FleetConfiguration(2, "least_outstanding"), ENGINE, SECOND)
    assert log.requests.replica.tolist() == [0, 1, 0]


def test_least_outstanding_waits_less_than_round_robin_when_lengths_differ() -> None:
    requests = poisson(3000, rate=60, seed=5, outputs=(1, 300))
    waits = {
        router: (log.requests.scheduled - log.requests.submitted).mean()
        for router in ("round_robin", "least_outstanding")
        for log in [simulate(requests, FleetConfiguration(4, router), ENGINE, COST)]
    }
    assert waits["least_outstanding"] < waits["round_robin"]


def test_what_can_never_run_is_rejected_and_takes_no_turn() -> None:
    """31 blocks of 16 hold 496 tokens: 496 + 1 just fit, one more token does not."""
    small = EngineConfiguration(32, max_model_len=600)
    rows = [(0.0, 496, 1), (0.0, 496, 2), (1.0, 1, 496), (1.0, 1, 497), (2.0, 590, 11), (2.0, 5, 5)]
    log = simulate(requests_of(rows), FleetConfiguration(2), small, COST)
    done, rejected = Outcome.COMPLETED, Outcome.REJECTED
    assert log.requests.outcome.tolist() == [done, rejected, done, rejected, rejected, done]
    assert log.requests.replica.tolist() == [0, -1, 1, -1, -1, 0]
    assert np.isnan(log.requests.submitted[[1, 3, 4]]).all()
    check_conservation(log)


def test_no_requests_leave_an_empty_log() -> None:
    empty = Requests(np.zeros(0), np.zeros(0, np.int64), np.zeros(0, np.int64))
    log = simulate(empty, FleetConfiguration(2), ENGINE, COST)
    assert (len(log.requests.arrival), len(log.leaps.start), log.end, log.blocks_left) == (0, 0, 0.0, 0)


@pytest.mark.parametrize("router", ["round_robin", "least_outstanding"])
def test_the_same_run_twice_is_the_same_to_the_bit(router: str) -> None:
    requests = poisson(1000, rate=80, seed=6)
    fleet = FleetConfiguration(3, router, Latencies(network=0.01))
    assert same(simulate(requests, fleet, ENGINE, COST), simulate(requests, fleet, ENGINE, COST))


@pytest.mark.parametrize("router", ["round_robin", "least_outstanding"])
def test_events_do_not_grow_with_the_number_of_requests(router: str) -> None:
    """All arrivals are handed over at once: SimPy starts a process, waits for the first of them, and ends it."""
    fleet = FleetConfiguration(2, router)
    few, many = (simulate(poisson(n, rate=60, seed=7), fleet, ENGINE, COST).events for n in (10, 3000))
    assert few == many <= 3


def test_a_fleet_without_failures_is_up_from_the_start() -> None:
    log = simulate(poisson(5, rate=1, seed=8), FleetConfiguration(3), ENGINE, COST)
    assert [(change.time, change.replica, change.state) for change in log.states] == [
        (0.0, replica, ReplicaState.UP) for replica in range(3)
    ]
