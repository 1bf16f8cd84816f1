"""Priorities of requests in a fleet: they reach the engine, and the log knows them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from capsim.engine import EngineConfiguration
from capsim.fleet import Failure, FleetConfiguration
from capsim.fleet.simulation import simulate
from capsim.measure.conservation import check_conservation
from capsim.measure.priorities import by_priority
from tests.fleet.workload import COST, ENGINE, poisson, requests_of, simultaneous
from tests.measure.test_simulated import shared_prefixes
from tests.strategies import Case, cases, in_short_chunks, with_priorities

FLEET = FleetConfiguration(1)
BY_PRIORITY = replace(ENGINE, max_num_seqs=1, scheduling_policy="priority")


def test_requests_are_served_by_priority_and_logged_with_it() -> None:
    """One at a time; all but the first come while it runs."""
    requests = replace(
        requests_of([(0.0, 10, 10), (0.001, 10, 5), (0.002, 10, 5), (0.003, 10, 5)]),
        priority=np.array([3, 2, 1, 0]),
    )
    log = simulate(requests, FLEET, BY_PRIORITY, COST)
    assert log.requests.priority.tolist() == [3, 2, 1, 0]
    assert np.argsort(log.requests.scheduled).tolist() == [0, 3, 2, 1]


def test_requests_without_priorities_are_served_in_order_of_arrival() -> None:
    requests = poisson(200, 50.0, seed=1)
    log = simulate(requests, FLEET, BY_PRIORITY, COST)
    other = simulate(requests, FLEET, replace(BY_PRIORITY, scheduling_policy="fcfs"), COST)
    assert log.requests.priority.tolist() == [0] * 200
    assert log.requests.finish.tolist() == other.requests.finish.tolist()


def test_clients_of_a_closed_loop_send_requests_with_their_priorities() -> None:
    requests = replace(simultaneous(60, 20, 10), priority=np.arange(60) % 3)
    log = simulate(requests, FLEET, BY_PRIORITY, COST, concurrency=12)
    check_conservation(log)
    waits = log.requests.scheduled - log.requests.submitted
    first, last = (waits[log.requests.priority == value].mean() for value in (0, 2))
    assert first < last


def test_latency_is_split_by_priority() -> None:
    requests = replace(poisson(400, 40.0, seed=2), priority=np.arange(400) % 4 // 3)
    engine = replace(ENGINE, max_num_seqs=4, scheduling_policy="priority")
    log = simulate(requests, FLEET, engine, COST)
    measured = np.arange(400) >= 40
    urgent, other = by_priority(log, measured)
    assert (urgent.priority, other.priority) == (0, 1)
    assert (urgent.ttft.count, other.ttft.count) == (270, 90)
    assert urgent.ttft.p95 < other.ttft.p95
    assert (
        by_priority(replace(log, requests=replace(log.requests, priority=requests.output * 0)), measured)
        == ()
    )


@settings(max_examples=200, deadline=None)
@given(
    st.one_of(in_short_chunks(cases()), with_priorities(cases()), in_short_chunks(with_priorities(cases()))),
    st.booleans(),
    st.booleans(),
    st.integers(1, 3),
)
def test_nothing_is_made_or_lost(case: Case, ahead: bool, fails: bool, samples: int) -> None:
    """Scarce blocks, shared prefixes, several sequences of a request, a replica that dies among the arrivals."""
    arrival, prompt, output = (np.array(column) for column in zip(*case.requests, strict=True))
    requests = replace(
        requests_of(case.requests),
        prefixes=shared_prefixes(case),
        samples=samples,
        priority=np.array(case.priorities) if case.priorities else None,
    )
    engine = EngineConfiguration(
        case.usable_blocks + 1,
        case.block_size,
        case.max_num_seqs,
        case.max_num_batched_tokens,
        reserve_full_prompt=case.reserve_full_prompt,
        enable_prefix_caching=case.enable_prefix_caching,
        async_scheduling=ahead,
        long_prefill_token_threshold=case.long_prefill_token_threshold,
        scheduling_policy="priority" if case.by_priority else "fcfs",
    )
    failures = (Failure(0, float(arrival[-1]) + 0.1, 0.5),) if fails else ()
    log = simulate(
        requests, FleetConfiguration(1 + fails, failures=failures, model_load_time=0.1), engine, COST
    )
    check_conservation(log)
    assert log.requests.attempts.min() >= 1
    assert len(log.requests.finish) == len(prompt) == len(output)
