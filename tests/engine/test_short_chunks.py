"""Prompts that take only so many tokens of a step (`long_prefill_token_threshold`): several are half computed."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from capsim.engine import EngineConfiguration, Replica, Sequence
from capsim.engine.offload import Tier
from capsim.engine.sequence import Path
from capsim.errors import BadInput, Infeasible
from tests.engine.replicas import SECOND
from tests.engine.test_async import compared
from tests.engine.test_differential import (
    DYADIC,
    SpreadCost,
    fast,
    leaps_are_the_steps,
    reference,
    same,
    same_if_it_ends,
    times,
    times_if_it_ends,
)
from tests.engine.test_scheduler import Leap, leaps, served
from tests.reference import NoHeadway
from tests.strategies import Case, cases, hybrid_cases, in_short_chunks, offload_cases

EXACT = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def caching(of: st.SearchStrategy[Case], there: bool) -> st.SearchStrategy[Case]:
    return of.map(lambda case: replace(case, enable_prefix_caching=there))


@EXACT
@given(in_short_chunks(caching(cases(), False)))
def test_exact_without_a_prefix_cache(case: Case) -> None:
    leaps_are_the_steps(*same(case))


@EXACT
@given(in_short_chunks(caching(cases(), True)))
def test_exact_with_prompts_that_begin_alike(case: Case) -> None:
    """Two of them may be half computed at once: which of two equal blocks is used matters when blocks are scarce."""
    leaps_are_the_steps(*same(case))


@EXACT
@given(in_short_chunks(st.one_of(offload_cases(), hybrid_cases())))
def test_exact_with_tiers_and_with_windows(case: Case) -> None:
    same_if_it_ends(case)


@EXACT
@given(in_short_chunks(cases()))
def test_exact_with_steps_planned_ahead(case: Case) -> None:
    compared(case)


@settings(max_examples=100, deadline=None)
@given(in_short_chunks(st.one_of(cases(), offload_cases(), hybrid_cases())), st.integers(1, 7))
def test_the_horizon_changes_nothing(case: Case, longest_plan: int) -> None:
    assert times_if_it_ends(case, SpreadCost()) == times_if_it_ends(case, SpreadCost(), longest_plan)


@settings(max_examples=100, deadline=None)
@given(cases())
def test_a_threshold_of_the_budget_changes_nothing(case: Case) -> None:
    _, sequences = fast(case, DYADIC)
    limited = replace(case, long_prefill_token_threshold=case.max_num_batched_tokens)
    _, others = fast(limited, DYADIC)
    assert times(sequences) == times(others)


ENDLESS = Case(
    requests=[(0.0, 22, 4), (0.0, 29, 4), (0.078125, 17, 5), (0.09375, 21, 1), (0.0, 2, 5)],
    block_size=4,
    usable_blocks=12,
    max_num_seqs=32,
    max_num_batched_tokens=32,
    reserve_full_prompt=False,
    enable_prefix_caching=True,
    paths=[(), (), (), (), ()],
    watermark_blocks=0,
    tiers=(Tier("tier", 24, 2.0**-12, 2.0**-9),),
    long_prefill_token_threshold=3,
)
"""Sequences that wait hold what they load from the tier, and the one that runs loses its own for want of a block."""


def test_sequences_that_take_each_others_blocks_for_ever_are_told_apart() -> None:
    with pytest.raises(NoHeadway):
        reference(ENDLESS, DYADIC)
    with pytest.raises(Infeasible, match=r"1,049 times .* 12 in all(.|\n)*scheduler_reserve_full_isl: true"):
        fast(ENDLESS, DYADIC)


@pytest.mark.parametrize(
    "change", [{"reserve_full_prompt": True}, {"long_prefill_token_threshold": 0}, {"tiers": ()}]
)
def test_each_remedy_that_is_named_ends_them(change: dict[str, Any]) -> None:
    leaps_are_the_steps(*same(replace(ENDLESS, **change)))


def test_a_negative_threshold_is_refused() -> None:
    with pytest.raises(BadInput, match="long_prefill_token_threshold"):
        EngineConfiguration(100, long_prefill_token_threshold=-1)


# By hand: steps take a second


@pytest.mark.parametrize(("threshold", "short", "long"), [(0, 5.0, 5.0), (512, 1.0, 20.0)])
def test_a_long_prompt_does_not_delay_a_short_one_behind_it(
    threshold: int, short: float, long: float
) -> None:
    """10,000 tokens and 100 behind them, 2,048 a step.

    Without a threshold the long one takes four steps whole, and 1,808 tokens of the fifth, which leave room for the
    short one. In chunks of 512 it takes 19 steps and 272 tokens of the 20th, and the short one is done with the first.
    """
    configuration = EngineConfiguration(1000, long_prefill_token_threshold=threshold)
    _, (first, second) = served(configuration, (0.0, 10_000, 1), (0.0, 100, 1))
    assert (second.first_token, first.first_token) == (short, long)


def test_one_step_admits_as_many_as_its_budget_has_chunks_for() -> None:
    """Chunks of 3 in steps of 8: 3, 3 and 2 of the first three, twice, then the third's last 2 and the fourth's 3."""
    configuration = EngineConfiguration(100, 4, 8, 8, long_prefill_token_threshold=3)
    replica, sequences = served(configuration, *[(0.0, 6, 1)] * 4)
    assert [(leap.prefill_tokens, leap.chunks) for leap in leaps(replica)] == [(8, 3), (8, 3), (5, 2), (3, 1)]
    assert [sequence.scheduled for sequence in sequences] == [0.0, 0.0, 0.0, 2.0]
    assert [sequence.first_token for sequence in sequences] == [2.0, 2.0, 3.0, 4.0]


def test_a_prompt_before_a_decode_is_not_its_victim() -> None:
    """Chunks of 4 in 6 blocks of 4: the short one, admitted last, decodes behind the long one's chunks.

    Blocks of the long one after each step: 1, 2, 3, 4. The short one has 1, then 2. At 4 the long one decodes and
    needs its fifth: the short one, last in running order, loses both.
    """
    configuration = EngineConfiguration(7, 4, 4, 8, reserve_full_prompt=False, long_prefill_token_threshold=4)
    replica, (long, short) = served(configuration, (0.0, 16, 3), (0.0, 4, 9))
    assert leaps(replica)[:5] == [
        Leap(0.0, 1, 8, 2, 0, 2),
        Leap(1.0, 1, 4, 1, 1, 4),
        Leap(2.0, 1, 4, 1, 1, 5),
        Leap(3.0, 1, 4, 1, 1, 6),
        Leap(4.0, 1, 0, 0, 1, 5),
    ]
    assert (long.preemptions, short.preemptions) == (0, 1)
    assert (long.first_token, long.finish, short.first_token) == (4.0, 6.0, 1.0)


def test_the_block_that_was_computed_first_is_found_whoever_was_admitted_first() -> None:
    """Two equal prompts of 5 blocks, chunks of one block: the second finds the first's block and goes on beside it.

    In each step the first computes the block that the second has already computed in the step before. A third that
    comes when both are done finds all but the last block, and holds the first one's beginning, and the second's rest.
    """
    path: Path = ((1, 20),)
    configuration = EngineConfiguration(
        100, 4, 8, 64, enable_prefix_caching=True, long_prefill_token_threshold=4
    )
    replica = Replica(configuration, SECOND)
    sequences = [Sequence(i, 20, 1, time, path) for i, time in enumerate((0.0, 0.0, 9.0))]
    for sequence in sequences:
        replica.submit(sequence, sequence.submitted)
    replica.advance(9.5)
    holds = sequences[2].holds
    assert [extent for _, extent in holds] == [1, 4]
    assert [sequence.cached for sequence in sequences] == [0, 4, 16]
    replica.advance(math.inf)
    assert [sequence.first_token for sequence in sequences] == [5.0, 4.0, 10.0]
    assert replica.blocks == 0
