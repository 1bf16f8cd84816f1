"""The queue by priority: who is admitted, who loses its blocks, and who misses a step because of it."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from capsim.engine import EngineConfiguration, Replica, Sequence
from capsim.errors import BadInput
from tests.engine.replicas import SECOND
from tests.engine.test_async import compared
from tests.engine.test_differential import (
    DYADIC,
    SpreadCost,
    fast,
    leaps_are_the_steps,
    same,
    same_if_it_ends,
    times,
    times_if_it_ends,
)
from tests.engine.test_scheduler import Leap, leaps
from tests.engine.test_short_chunks import caching
from tests.strategies import Case, cases, hybrid_cases, in_short_chunks, offload_cases, with_priorities

EXACT = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@EXACT
@given(with_priorities(caching(cases(), False)))
def test_exact_without_a_prefix_cache(case: Case) -> None:
    leaps_are_the_steps(*same(case))


@EXACT
@given(with_priorities(caching(cases(), True)))
def test_exact_with_prompts_that_begin_alike(case: Case) -> None:
    leaps_are_the_steps(*same(case))


@EXACT
@given(with_priorities(st.one_of(offload_cases(), hybrid_cases())))
def test_exact_with_tiers_and_with_windows(case: Case) -> None:
    leaps_are_the_steps(*same(case))


@EXACT
@given(in_short_chunks(with_priorities(st.one_of(cases(), offload_cases(), hybrid_cases()))))
def test_exact_with_prompts_in_short_chunks(case: Case) -> None:
    same_if_it_ends(case)


@EXACT
@given(st.one_of(with_priorities(cases()), in_short_chunks(with_priorities(cases()))))
def test_exact_with_steps_planned_ahead(case: Case) -> None:
    compared(case)


@settings(max_examples=100, deadline=None)
@given(with_priorities(st.one_of(cases(), offload_cases(), hybrid_cases())), st.integers(1, 7))
def test_the_horizon_changes_nothing(case: Case, longest_plan: int) -> None:
    assert times_if_it_ends(case, SpreadCost()) == times_if_it_ends(case, SpreadCost(), longest_plan)


@settings(max_examples=100, deadline=None)
@given(with_priorities(cases()))
def test_fcfs_ignores_priorities(case: Case) -> None:
    _, sequences = fast(replace(case, by_priority=False), DYADIC)
    _, others = fast(replace(case, by_priority=False, priorities=()), DYADIC)
    assert times(sequences) == times(others)


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(BadInput, match="expected fcfs or priority"):
        EngineConfiguration(100, scheduling_policy="shortest")


# By hand: steps take a second

Row = tuple[float, int, int, int]


def served(configuration: EngineConfiguration, *requests: Row) -> tuple[Replica, list[Sequence]]:
    """Serve requests (arrival, prompt, output, priority) to their end."""
    replica = Replica(replace(configuration, scheduling_policy="priority"), SECOND)
    sequences = [
        Sequence(number, prompt, output, time, priority=priority)
        for number, (time, prompt, output, priority) in enumerate(requests)
    ]
    for sequence in sequences:
        replica.submit(sequence, sequence.submitted)
    replica.advance(math.inf)
    assert replica.blocks == replica.outstanding == 0
    return replica, sequences


def test_the_smallest_priority_is_admitted_first_then_the_earliest() -> None:
    """One slot, taken for 3 s; meanwhile come two of priority 1, one of 0 and one of -1."""
    rows = [(0.0, 4, 3, 0), (0.5, 4, 1, 1), (0.75, 4, 1, 0), (1.0, 4, 1, 1), (1.5, 4, 1, -1)]
    _, sequences = served(EngineConfiguration(100, 4, 1, 64), *rows)
    assert [sequence.scheduled for sequence in sequences] == [0.0, 5.0, 4.0, 6.0, 3.0]


def test_an_arrival_passes_a_blocked_one_of_less_priority() -> None:
    """The second needs 6 of 5 free blocks; the third, which needs one, stands before it at once."""
    rows = [(0.0, 4, 20, 1), (1.5, 24, 1, 1), (2.5, 4, 1, 0)]
    _, (_, blocked, urgent) = served(EngineConfiguration(8, 4, 8, 64), *rows)
    assert (urgent.scheduled, blocked.scheduled) == (3.0, 20.0)


def test_the_victim_is_the_one_of_least_priority_wherever_it_runs() -> None:
    """Blocks of 4, 5 of them. The first, of 6 tokens, holds 3 at 5 and needs none; the second needs its third there.

    The first had its share of the step and gives it back: it computes 6 + 5 tokens again when the second has ended.
    """
    replica, (low, high) = served(EngineConfiguration(6, 4, 4, 64), (0.0, 6, 8, 1), (0.0, 4, 8, 0))
    assert leaps(replica)[-4:] == [
        Leap(5.0, 1, 0, 0, 1, 3),
        Leap(6.0, 2, 0, 0, 1, 3),
        Leap(8.0, 1, 11, 1, 0, 3),
        Leap(9.0, 2, 0, 0, 1, 3),
    ]
    assert (low.preemptions, high.preemptions) == (1, 0)
    assert (low.finish, high.finish) == (11.0, 8.0)
    assert replica.resumed_gaps == [9.0 - 5.0]


def test_who_is_its_own_victim_ends_the_step_for_those_behind_it() -> None:
    """Blocks of 4, 7 of them, all held at 5, when the second and the third need one more each.

    The first needs none. The second has the least priority and loses its own two, and the third, behind it, misses the
    step though they are free now: its fifth token comes at 7, two seconds after its fourth, as the last of a prompt.
    """
    rows = [(0.0, 6, 8, 0), (0.0, 4, 8, 1), (0.5, 5, 8, 0)]
    replica, (first, second, third) = served(EngineConfiguration(8, 4, 4, 64), *rows)
    assert leaps(replica)[-6:] == [
        Leap(5.0, 1, 0, 0, 1, 5),
        Leap(6.0, 1, 1, 1, 1, 6),
        Leap(7.0, 1, 0, 0, 2, 7),
        Leap(8.0, 1, 9, 1, 1, 6),
        Leap(9.0, 1, 0, 0, 2, 6),
        Leap(10.0, 1, 0, 0, 1, 3),
    ]
    assert [sequence.preemptions for sequence in (first, second, third)] == [0, 1, 0]
    assert [sequence.finish for sequence in (first, second, third)] == [8.0, 11.0, 10.0]
    assert replica.resumed_gaps == [7.0 - 5.0, 9.0 - 5.0]


def test_a_preempted_sequence_waits_at_its_place_in_the_queue() -> None:
    """The one of priority 2 loses its blocks at 5; one of priority 1, which came later, is admitted before it."""
    rows = [(0.0, 4, 8, 2), (0.0, 4, 8, 0), (5.5, 8, 2, 1)]
    _, (low, _, middle) = served(EngineConfiguration(5, 4, 2, 64), *rows)
    assert low.preemptions == 1
    assert middle.scheduled == 8.0
    assert low.finish == 13.0
