"""What comes to a replica and when it looks: submit, advance, drain, next_completion, and what can run at all."""

from __future__ import annotations

import copy
import math
from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capsim.cost.linear import LinearCost
from capsim.engine import EngineConfiguration, Replica, Sequence
from tests.engine.replicas import BLOCKS, SECOND, leap_table, moments, replica_of, submit
from tests.engine.test_differential import DYADIC, configuration, fast, sequences_of, times
from tests.strategies import Case, cases

# submit


def test_submit_to_an_idle_replica_starts_a_step_at_once() -> None:
    replica = replica_of()
    sequence = submit(replica, 3.5, prompt=5, output=3)
    replica.advance(math.inf)
    assert (sequence.scheduled, sequence.first_token, sequence.finish) == (3.5, 4.5, 6.5)


@pytest.mark.parametrize(
    ("arrival", "scheduled"),
    [
        (3.25, 4.0),
        (3.0, 3.0),
        (3.0 + 0.9e-9, 3.0),
        (3.0 + 1.1e-9, 4.0),
        (0.5, 1.0),
        (0.0, 0.0),
        (1.0 + 0.9e-9, 1.0),
        (1.0 + 1.1e-9, 2.0),
    ],
)
def test_submit_cuts_the_plan_at_the_first_boundary_from_then_on(arrival: float, scheduled: float) -> None:
    """An arrival up to 1 ns after a boundary counts as present at it; at 1 a plan ends, at 3 it goes on."""
    replica = replica_of()
    first = submit(replica, 0.0, prompt=1, output=10)
    second = submit(replica, arrival, prompt=1, output=1)
    replica.advance(math.inf)
    assert second.scheduled == scheduled
    assert second.finish == scheduled + 1
    assert first.finish == 10.0


def test_submits_between_two_boundaries_share_the_cut() -> None:
    replica = replica_of()
    submit(replica, 0.0, prompt=1, output=10)
    later = [submit(replica, time, prompt=1, output=2) for time in (3.1, 3.2, 3.9)]
    replica.advance(math.inf)
    assert [sequence.scheduled for sequence in later] == [4.0, 4.0, 4.0]
    assert replica.plans == 5  # prefill, decodes to 4, prefill of three, their end, the rest


def test_a_blocked_head_is_not_retried_by_later_arrivals() -> None:
    replica = replica_of(max_num_seqs=1)
    submit(replica, 0.0, prompt=1, output=100)
    later = [submit(replica, 1.5 + i, prompt=1, output=1) for i in range(50)]
    assert replica.plans == 2  # the first prompt and one leap: nobody cut it
    replica.advance(math.inf)
    assert [sequence.scheduled for sequence in later] == [100.0 + i for i in range(50)]


def test_a_head_without_blocks_does_not_cut_and_those_behind_it_wait() -> None:
    replica = replica_of(blocks=6)
    submit(replica, 0.0, prompt=4, output=9)  # 3 blocks in the end
    large = submit(replica, 2.5, prompt=20, output=1)
    small = submit(replica, 2.75, prompt=1, output=1)
    assert replica.plans == 2
    replica.advance(math.inf)
    assert large.scheduled == small.scheduled == 9.0


def test_a_first_chunk_that_fits_only_because_decodes_take_budget_is_admitted() -> None:
    """First-chunk admission: 4 decodes leave 8 tokens of 12, so 2 free blocks suffice where 12 would take 3."""
    pool = EngineConfiguration(7, 4, 8, 12, reserve_full_prompt=False)
    replica = Replica(pool, SECOND)
    for request in range(4):
        submit(replica, 0.0, prompt=1, output=20, request=request)
    late = submit(replica, 1.5, prompt=12, output=1)
    replica.advance(2.5)
    assert late.scheduled == 2.0


# advance


@settings(max_examples=200, deadline=None)
@given(cases(), st.lists(st.tuples(moments(), st.booleans()), max_size=40))
def test_looking_changes_nothing(case: Case, looks: list[tuple[float, bool]]) -> None:
    """advance() and observe() at any times between the submits leave every time and preemption as it was."""
    calm, undisturbed = fast(case, DYADIC)
    replica = Replica(configuration(case), DYADIC)
    sequences = sequences_of(case)
    queue = deque(sequences)
    for time, only_advance in sorted(looks):
        while queue and queue[0].submitted <= time:
            replica.submit(queue[0], queue.popleft().submitted)
        for _ in range(2):
            replica.advance(time) if only_advance else replica.observe(time)
    for sequence in queue:
        replica.submit(sequence, sequence.submitted)
    replica.advance(math.inf)
    replica.advance(math.inf)
    assert times(sequences) == times(undisturbed)
    assert [s.preemptions for s in sequences] == [s.preemptions for s in undisturbed]
    assert (replica.plans, replica.touched) == (calm.plans, calm.touched)
    assert leap_table(replica).tolist() == leap_table(calm).tolist()


def test_a_decision_waits_until_the_clock_has_passed_its_boundary() -> None:
    replica = replica_of()
    submit(replica, 0.0, prompt=1, output=1)
    replica.advance(0.0)
    assert replica.plans == 0
    together = submit(replica, 0.0, prompt=1, output=1)
    replica.advance(1.0)
    assert (replica.plans, together.finish) == (1, 1.0)
    replica.advance(1.0)
    assert (replica.plans, len(replica.finished), replica.outstanding) == (1, 2, 0)


# drain


def test_drain_gives_back_what_was_never_scheduled() -> None:
    replica = replica_of(max_num_seqs=2)
    running = [submit(replica, 0.0, prompt=3, output=10) for _ in range(2)]
    queued = [submit(replica, 1.5, prompt=3, output=10) for _ in range(3)]
    assert replica.drain(2.5) == queued
    replica.advance(math.inf)
    assert [sequence.finish for sequence in running] == [10.0, 10.0]
    assert all(math.isnan(sequence.scheduled) for sequence in queued)
    assert (replica.outstanding, replica.blocks, replica.lost_tokens) == (0, 0, 0)


def test_drain_keeps_the_preempted() -> None:
    replica = replica_of(blocks=4)
    both = [submit(replica, 0.0, prompt=4, output=12, request=i) for i in range(2)]
    replica.advance(6.5)
    assert [sequence.preemptions for sequence in both] == [0, 1]
    fresh = submit(replica, 6.5, prompt=1, output=1)
    assert replica.drain(6.75) == [fresh]
    replica.advance(math.inf)
    assert [sequence.generated for sequence in both] == [12, 12]
    assert replica.blocks == 0


# next_completion


@settings(max_examples=150, deadline=None)
@given(cases(), st.lists(moments(), max_size=10))
def test_next_completion_is_never_later_than_the_next_end(case: Case, looks: list[float]) -> None:
    replica = Replica(configuration(case), DYADIC)
    queue = deque(Sequence(i, prompt, output, t) for i, (t, prompt, output) in enumerate(case.requests))
    for time in sorted(looks):
        while queue and queue[0].submitted <= time:
            replica.submit(queue[0], queue.popleft().submitted)
        replica.advance(time)
        promise = replica.next_completion()
        replica.finished.clear()
        future = copy.deepcopy(replica)
        future.advance(math.inf)
        assert promise <= min((s.finish for s in future.finished), default=math.inf)
        assert math.isinf(promise) == (not future.finished)


@settings(max_examples=100, deadline=None)
@given(cases())
def test_waking_at_each_next_completion_serves_everything(case: Case) -> None:
    replica = Replica(configuration(case), DYADIC)
    for i, (time, prompt, output) in enumerate(case.requests):
        submit(replica, time, prompt, output, request=i)
    last, wakes = 0.0, 0
    while (wake := replica.next_completion()) < math.inf:
        assert wake > last
        last, wakes = wake, wakes + 1
        replica.advance(wake)
    assert len(replica.finished) == len(case.requests)
    assert (
        wakes <= 2 * replica.plans + 1
    )  # each boundary is woken for twice at most: to commit, and to decide


# What can run at all


def test_a_request_that_needs_the_whole_pool_runs_alone() -> None:
    """5 blocks of 4 hold 20 tokens; the last token generated is never computed and takes no room."""
    replica = Replica(EngineConfiguration(6, 4, 8, 64), SECOND, longest_plan=1)
    sequences = [submit(replica, 0.0, prompt=13, output=8, request=i) for i in range(2)]
    assert replica.configuration.admits(13, 8)
    replica.advance(math.inf)
    assert leap_table(replica)[:, BLOCKS].max() == 5
    assert [sequence.generated for sequence in sequences] == [8, 8]
    assert replica.blocks == 0


@pytest.mark.parametrize(
    ("prompt", "output", "admitted"),
    [
        (13, 8, True),
        (13, 9, False),
        (20, 1, True),
        (21, 1, False),
        (1, 20, True),
        (1, 21, False),
        (10, 10, True),
        (1, 1, True),
    ],
)
def test_admits_to_the_whole_pool_and_no_block_more(prompt: int, output: int, admitted: bool) -> None:
    assert EngineConfiguration(6, block_size=4).admits(prompt, output) is admitted


@pytest.mark.parametrize(("output", "admitted"), [(90, True), (91, False)])
def test_admits_up_to_max_model_len(output: int, admitted: bool) -> None:
    """The output's last token counts here, although it takes no KV."""
    assert EngineConfiguration(1000, max_model_len=100).admits(10, output) is admitted


def test_a_pool_of_the_null_block_alone_admits_nothing() -> None:
    assert not EngineConfiguration(1).admits(1, 1)


def test_steps_that_take_no_time_are_taken() -> None:
    """A cost of decodes alone makes a lone prompt free: its first token appears at its arrival."""
    replica = Replica(EngineConfiguration(100, 4, 8, 64), LinearCost(per_decode=1.0))
    sequence = submit(replica, 2.0, prompt=5, output=4)
    replica.advance(math.inf)
    assert (sequence.scheduled, sequence.first_token, sequence.finish) == (2.0, 2.0, 5.0)
