"""Requests that generate several sequences from one prompt (`n`)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capsim.cost.constant import ConstantCost
from capsim.engine import EngineConfiguration
from capsim.fleet import Failure, FleetConfiguration, Outcome
from capsim.fleet.simulation import simulate
from capsim.measure.conservation import check_conservation
from capsim.workload.requests import Requests
from tests.fleet.workload import COST, ENGINE, poisson, requests_of, simultaneous

CACHING = replace(ENGINE, enable_prefix_caching=True)


def sampled(requests: Requests, samples: int) -> Requests:
    return replace(requests, samples=samples)


def test_the_prompt_is_computed_once_and_its_last_block_by_each() -> None:
    """100 tokens in blocks of 16: the other three find 6 full blocks, and compute 4 tokens each, in the same step."""
    log = simulate(sampled(requests_of([(0.0, 100, 5)]), 4), FleetConfiguration(1), CACHING, COST)
    assert log.requests.cached.tolist() == [3 * 96]
    assert log.leaps.prefill_tokens.tolist() == [100 + 3 * 4, 0]
    assert log.leaps.blocks[0] == 6 + 4  # one copy of the full blocks, four of the last
    assert log.leaps.decodes[-1] == 4
    check_conservation(log)


def test_without_prefix_caching_each_computes_all() -> None:
    log = simulate(sampled(requests_of([(0.0, 100, 5)]), 4), FleetConfiguration(1), ENGINE, COST)
    assert log.leaps.prefill_tokens.tolist() == [400, 0]
    assert log.leaps.blocks[0] == 4 * 7
    check_conservation(log)


def test_a_request_begins_with_its_first_sequence_and_ends_with_its_last() -> None:
    """Two slots for three sequences of 4 steps each: the third waits for a slot."""
    engine = EngineConfiguration(100, max_num_seqs=2, max_num_batched_tokens=64)
    log = simulate(sampled(requests_of([(0.0, 8, 4)]), 3), FleetConfiguration(1), engine, ConstantCost(1.0))
    assert (log.requests.first_token[0], log.requests.finish[0]) == (1.0, 8.0)
    assert log.requests.service[0] == 4.0 + 4.0 + 4.0
    check_conservation(log)


def test_a_client_waits_for_all_sequences_before_its_next_request() -> None:
    log = simulate(
        sampled(simultaneous(3, 16, 4), 2), FleetConfiguration(1), CACHING, ConstantCost(1.0), concurrency=1
    )
    assert log.requests.arrival.tolist() == [0.0, 4.0, 8.0]
    check_conservation(log)


def test_one_sequence_a_request_is_the_plain_run() -> None:
    requests = poisson(200, 20.0, seed=3)
    plain, one = (
        simulate(each, FleetConfiguration(2), CACHING, COST) for each in (requests, sampled(requests, 1))
    )
    assert np.array_equal(plain.requests.finish, one.requests.finish)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 1000),
    samples=st.integers(2, 5),
    blocks=st.sampled_from([80, 200, 2000]),
    at=st.floats(0.1, 3.0),
    caching=st.booleans(),
)
def test_nothing_is_lost_when_a_replica_dies(
    seed: int, samples: int, blocks: int, at: float, caching: bool
) -> None:
    """Retried as a whole: what its other sequences had generated is lost with it."""
    fleet = FleetConfiguration(2, failures=(Failure(0, at, 0.5),), model_load_time=0.25)
    engine = replace(ENGINE, num_gpu_blocks=blocks, enable_prefix_caching=caching)
    log = simulate(sampled(poisson(40, 20.0, seed), samples), fleet, engine, COST)
    check_conservation(log)
    assert log.blocks_left == 0
    assert (log.requests.outcome == Outcome.COMPLETED).all()


@pytest.mark.parametrize("retries", [0, 1])
def test_a_request_whose_retries_are_spent_is_lost_as_a_whole(retries: int) -> None:
    """Both replicas die under it; the sequences that had ended do not make it an answer."""
    fleet = FleetConfiguration(2, failures=(Failure(0, 2.5), Failure(1, 4.5)), max_retries=retries)
    log = simulate(sampled(requests_of([(0.0, 8, 4)]), 3), fleet, CACHING, ConstantCost(1.0))
    assert log.requests.outcome.tolist() == [Outcome.LOST]
    assert np.isnan(log.requests.finish).all()
    check_conservation(log)
