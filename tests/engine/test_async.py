"""Steps that are planned while the one before runs, against the plain replica that does so step by step."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings

from capsim.cost.constant import ConstantCost
from capsim.engine import EngineConfiguration, Replica
from tests.engine.replicas import submit
from tests.engine.test_differential import DYADIC, configuration, plain_sequences, sequences_of, times
from tests.reference_async import AsyncReference
from tests.strategies import Case, cases


def compared(case: Case, longest_plan: int | None = None) -> None:
    plain = AsyncReference(
        DYADIC,
        usable_blocks=case.usable_blocks,
        block_size=case.block_size,
        max_num_seqs=case.max_num_seqs,
        max_num_batched_tokens=case.max_num_batched_tokens,
        reserve_full_prompt=case.reserve_full_prompt,
        enable_prefix_caching=case.enable_prefix_caching,
        watermark_blocks=case.watermark_blocks,
        long_prefill_token_threshold=case.long_prefill_token_threshold,
        by_priority=case.by_priority,
    )
    expected = plain_sequences(case)
    plain.run(expected)
    replica = Replica(replace(configuration(case), async_scheduling=True), DYADIC, longest_plan=longest_plan)
    sequences = sequences_of(case)
    for sequence in sequences:
        replica.submit(sequence, sequence.submitted)
    replica.advance(math.inf)
    assert [s.preemptions for s in sequences] == [s.preemptions for s in expected]
    assert [(s.cached, s.found) for s in sequences] == [(s.cached, s.found) for s in expected]
    assert times(sequences) == times(expected)
    assert (replica.blocks, replica.outstanding) == (0, 0)


@settings(max_examples=500, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(cases())
def test_exact_with_dyadic_costs(case: Case) -> None:
    compared(case)


@settings(max_examples=100, deadline=None)
@given(cases())
def test_the_horizon_changes_nothing(case: Case) -> None:
    compared(case, longest_plan=2)


@pytest.mark.parametrize(("ahead", "scheduled"), [(False, 2.0), (True, 3.0)])
def test_an_arrival_joins_the_step_after_the_next_one(ahead: bool, scheduled: float) -> None:
    """Steps take a second; it comes at 1.5 s: the step from 2 s on is planned already."""
    replica = Replica(EngineConfiguration(100, async_scheduling=ahead), ConstantCost(1.0))
    submit(replica, 0.0, prompt=4, output=10)
    late = submit(replica, 1.5, prompt=4, output=2, request=1)
    replica.advance(math.inf)
    assert late.scheduled == scheduled


def test_an_idle_engine_begins_at_once() -> None:
    replica = Replica(EngineConfiguration(100, async_scheduling=True), ConstantCost(1.0))
    first = submit(replica, 0.5, prompt=4, output=3)
    second = submit(replica, 9.25, prompt=4, output=1, request=1)
    replica.advance(math.inf)
    assert (first.scheduled, first.finish, second.scheduled, second.finish) == (0.5, 3.5, 9.25, 10.25)


def test_a_slot_is_known_to_be_free_one_step_late() -> None:
    """One slot; the first ends at 3 s, but the step from 3 s on was planned at 2 s, to nothing: it is planned anew."""
    configuration = EngineConfiguration(100, max_num_seqs=1, async_scheduling=True)
    replica = Replica(configuration, ConstantCost(1.0))
    submit(replica, 0.0, prompt=4, output=3)
    second = submit(replica, 0.0, prompt=4, output=1, request=1)
    replica.advance(math.inf)
    assert second.scheduled == 3.0
    beside = Replica(replace(configuration, max_num_seqs=2), ConstantCost(1.0))
    submit(beside, 0.0, prompt=4, output=3)
    submit(beside, 0.0, prompt=4, output=9, request=1)
    third = submit(beside, 0.0, prompt=4, output=1, request=2)
    beside.advance(math.inf)
    assert third.scheduled == 4.0
