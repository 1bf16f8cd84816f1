"""Every verb of the replica: what it does to the plan in flight, to the queue and to the KV blocks."""

from __future__ import annotations

import copy
import math
from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capsim.cost.constant import ConstantCost
from capsim.cost.linear import LinearCost
from capsim.engine import EngineConfiguration, Replica, Sequence
from capsim.engine.replica import LEAP_FIELDS
from tests.engine.test_differential import DYADIC, configuration, fast, reference, times
from tests.reference import TIE, ReferenceReplica, ReferenceSequence
from tests.strategies import Case, cases

SECOND = ConstantCost(1.0)
STEPS, DECODES, BLOCKS = (LEAP_FIELDS.index(name) for name in ("steps", "decodes", "blocks"))


def replica_of(
    blocks: int = 1000, block_size: int = 4, max_num_seqs: int = 8, max_num_batched_tokens: int = 64
) -> Replica:
    return Replica(EngineConfiguration(blocks + 1, block_size, max_num_seqs, max_num_batched_tokens), SECOND)


def submit(replica: Replica, time: float, prompt: int, output: int, request: int = 0) -> Sequence:
    sequence = Sequence(request, prompt, output, time)
    replica.submit(sequence, time)
    return sequence


def moments(units: int = 3000, unit: float = 1 / 1009) -> st.SearchStrategy[float]:
    """Times that fall on no step boundary: boundaries are dyadic fractions, these are not."""
    return st.integers(0, units).map(lambda count: (count + 0.37) * unit)


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
    sequences = [Sequence(i, prompt, output, t) for i, (t, prompt, output) in enumerate(case.requests)]
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
    assert replica.leaps().tolist() == calm.leaps().tolist()


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


# abort


def test_abort_of_a_waiting_sequence_unblocks_those_behind_it() -> None:
    replica = replica_of(blocks=6)
    submit(replica, 0.0, prompt=4, output=9)
    large = submit(replica, 2.5, prompt=20, output=1)
    small = submit(replica, 2.75, prompt=1, output=1)
    replica.abort(large, 4.25)
    replica.advance(math.inf)
    assert small.scheduled == 5.0
    assert math.isnan(large.scheduled)
    assert replica.lost_tokens == replica.blocks == 0


def test_abort_of_a_prefilling_sequence_frees_what_it_computed() -> None:
    replica = replica_of(max_num_batched_tokens=8)
    sequence = submit(replica, 0.0, prompt=30, output=5)
    replica.abort(sequence, 1.5)  # its second chunk is in flight and ends at 2
    assert replica.observe(1.75).blocks == 4
    assert replica.observe(2.0).blocks == 0
    replica.advance(math.inf)
    assert (replica.outstanding, replica.lost_tokens) == (0, 0)
    assert replica.leaps()[:, STEPS].sum() == 2


def test_abort_of_a_decoding_sequence_ends_it_at_the_next_boundary() -> None:
    replica = replica_of()
    stays = submit(replica, 0.0, prompt=3, output=10)
    leaves = submit(replica, 0.0, prompt=3, output=10)
    replica.abort(leaves, 4.5)
    replica.advance(math.inf)
    assert (leaves.generated, replica.lost_tokens) == (5, 5)
    assert math.isnan(leaves.finish)
    assert (stays.finish, replica.finished) == (10.0, [stays])
    assert replica.leaps()[:, [STEPS, DECODES]].tolist() == [[1, 0], [4, 2], [5, 1]]


@pytest.mark.parametrize(("time", "generated"), [(4.0, 4), (4.0 + 0.9e-9, 4), (4.0 + 1.1e-9, 5)])
def test_abort_at_a_boundary_takes_effect_at_it(time: float, generated: int) -> None:
    replica = replica_of()
    sequence = submit(replica, 0.0, prompt=3, output=10)
    replica.abort(sequence, time)
    replica.advance(math.inf)
    assert sequence.generated == generated


def test_abort_at_the_instant_of_the_last_token_comes_too_late() -> None:
    replica = replica_of()
    sequence = submit(replica, 0.0, prompt=3, output=10)
    replica.abort(sequence, 9.5)
    replica.advance(math.inf)
    assert (sequence.finish, replica.lost_tokens) == (10.0, 0)


def test_abort_happens_once() -> None:
    replica = replica_of()
    sequence = submit(replica, 0.0, prompt=3, output=10)
    other = submit(replica, 0.0, prompt=3, output=10)
    replica.abort(sequence, 4.25)
    replica.abort(sequence, 4.5)
    replica.abort(sequence, 6.5)
    replica.advance(math.inf)
    assert (replica.lost_tokens, replica.blocks, other.finish) == (5, 0, 10.0)
    replica.abort(other, 20.0)
    assert replica.lost_tokens == 5


class AbortingReference(ReferenceReplica):
    """The plain replica with clients that give up: at each boundary, before the batch is chosen."""

    def run_with(self, sequences: list[ReferenceSequence], aborts: list[tuple[float, int]]) -> None:
        arrivals, given_up = deque(sequences), deque(aborts)
        now = 0.0
        while arrivals or self.waiting or self.running:
            if not self.waiting and not self.running:
                now = max(now, arrivals[0].arrival)
            while arrivals and arrivals[0].arrival <= now + TIE:
                self.waiting.append(arrivals.popleft())
            while given_up and given_up[0][0] <= now + TIE:
                self.drop(sequences[given_up.popleft()[1]])
            if self.waiting or self.running:
                now = self.step(now)
        assert self.free == self.usable

    def drop(self, sequence: ReferenceSequence) -> None:
        if sequence in self.waiting:
            self.waiting.remove(sequence)
        elif sequence in self.running:
            self.running.remove(sequence)
            self.release(sequence)


@settings(max_examples=250, deadline=None)
@given(cases(), st.data())
def test_aborts_match_the_reference(case: Case, data: st.DataObject) -> None:
    """Blocks return to 0, others keep their token counts, and all times are those of the plain replica."""
    victims = data.draw(st.sets(st.integers(0, len(case.requests) - 1), max_size=8))
    aborts = sorted((case.requests[i][0] + data.draw(moments()), i) for i in victims)
    plain = AbortingReference(
        DYADIC,
        usable_blocks=case.usable_blocks,
        block_size=case.block_size,
        max_num_seqs=case.max_num_seqs,
        max_num_batched_tokens=case.max_num_batched_tokens,
        reserve_full_prompt=case.reserve_full_prompt,
    )
    expected = [ReferenceSequence(i, *request) for i, request in enumerate(case.requests)]
    plain.run_with(expected, aborts)
    replica = Replica(configuration(case), DYADIC)
    sequences = [Sequence(i, prompt, output, t) for i, (t, prompt, output) in enumerate(case.requests)]
    told = [(s.submitted, 0, s.request) for s in sequences] + [(time, 1, i) for time, i in aborts]
    for time, is_abort, i in sorted(told):
        replica.abort(sequences[i], time) if is_abort else replica.submit(sequences[i], time)
    replica.advance(math.inf)
    assert (replica.blocks, replica.outstanding) == (0, 0)
    assert [s.generated for s in sequences] == [s.generated for s in expected]
    assert [s.preemptions for s in sequences] == [s.preemptions for s in expected]
    assert str(times(sequences)) == str(times(expected))  # as text, so that NaN equals NaN
    assert replica.lost_tokens == sum(s.generated for s in sequences if math.isnan(s.finish))
    assert all(s.generated == s.output for s in sequences if s.request not in victims)


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


# fail


@settings(max_examples=300, deadline=None)
@given(cases(), moments())
def test_fail_keeps_whole_steps_and_loses_the_one_in_flight(case: Case, death: float) -> None:
    plain, expected = reference(case, DYADIC)
    replica = Replica(configuration(case), DYADIC)
    sequences = [Sequence(i, prompt, output, t) for i, (t, prompt, output) in enumerate(case.requests)]
    told = [sequence for sequence in sequences if sequence.submitted <= death]
    for sequence in told:
        replica.submit(sequence, sequence.submitted)
    lost = replica.fail(death)
    by_then = [sum(time <= death for time in s.token_times) for s in expected[: len(told)]]
    assert [s.generated for s in told] == by_then
    assert {s.request for s in lost} == {s.request for s in told if not s.finish <= death}
    assert replica.lost_tokens == sum(s.generated for s in lost)
    assert (replica.blocks, replica.outstanding) == (0, 0)
    assert replica.leaps()[:, STEPS].sum() == sum(s.start + s.seconds <= death for s in plain.steps)
    assert replica.next_completion() == math.inf
    again = submit(replica, death + 1.0, prompt=1, output=1)
    replica.advance(math.inf)
    assert again.scheduled == death + 1.0
    assert replica.blocks == 0


def test_fail_does_not_hand_back_what_was_aborted() -> None:
    replica = replica_of()
    aborted, kept = (submit(replica, 0.0, prompt=3, output=10) for _ in range(2))
    replica.abort(aborted, 1.5)
    assert replica.fail(1.75) == [kept]
    assert (replica.lost_tokens, replica.blocks) == (2, 0)


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


# observe


class ObservedReference(ReferenceReplica):
    """The plain replica, photographed after each choice of a batch: start, running, waiting, blocks, context."""

    photographs: list[tuple[float, int, int, int, int]]

    def schedule(self, now: float) -> list[tuple[ReferenceSequence, int]]:
        work = super().schedule(now)
        context = sum(sequence.tokens for sequence in self.running if sequence.decoding)
        state = (now, len(self.running), len(self.waiting), self.usable - self.free, context)
        self.photographs.append(state)
        return work


def photographed(case: Case) -> ObservedReference:
    plain = ObservedReference(
        DYADIC,
        usable_blocks=case.usable_blocks,
        block_size=case.block_size,
        max_num_seqs=case.max_num_seqs,
        max_num_batched_tokens=case.max_num_batched_tokens,
        reserve_full_prompt=case.reserve_full_prompt,
    )
    plain.photographs = []
    plain.run([ReferenceSequence(i, *request) for i, request in enumerate(case.requests)])
    return plain


@settings(max_examples=300, deadline=None)
@given(cases(), st.lists(moments(), min_size=1, max_size=20))
def test_observation_is_the_reference_state_at_the_last_boundary(case: Case, looks: list[float]) -> None:
    plain = photographed(case)
    replica = Replica(configuration(case), DYADIC)
    queue = deque(Sequence(i, prompt, output, t) for i, (t, prompt, output) in enumerate(case.requests))
    for time in sorted(looks):
        while queue and queue[0].submitted <= time:
            replica.submit(queue[0], queue.popleft().submitted)
        seen = replica.observe(time)
        in_flight = [
            (photograph, step)
            for photograph, step in zip(plain.photographs, plain.steps, strict=True)
            if step.start < time < step.start + step.seconds
        ]
        if not in_flight:
            assert (seen.time, seen.running, seen.waiting, seen.blocks, seen.context) == (time, 0, 0, 0, 0)
            continue
        (start, running, waiting, blocks, context), _ = in_flight[0]
        waiting += sum(start + TIE < arrival <= time for arrival, _, _ in case.requests)
        assert (seen.time, seen.running, seen.waiting, seen.blocks, seen.context) == (
            start,
            running,
            waiting,
            blocks,
            context,
        )


@settings(max_examples=100, deadline=None)
@given(cases())
def test_the_blocks_of_a_leap_are_those_after_its_first_step_was_planned(case: Case) -> None:
    planned = {photograph[0]: photograph[3] for photograph in photographed(case).photographs}
    replica, _ = fast(case, DYADIC)
    assert replica.leaps()[:, BLOCKS].tolist() == [planned[start] for start in replica.leaps()[:, 0]]


def test_observation_at_a_boundary_comes_before_the_decision() -> None:
    """At the very boundary the next step's block is not taken yet, whether a leap goes on there or not."""
    leaping = replica_of()
    stepping = Replica(leaping.configuration, SECOND, longest_plan=1)
    for replica in (leaping, stepping):
        submit(
            replica, 0.0, prompt=4, output=10
        )  # 4 tokens fill a block, so the step from 1 on takes the next
        assert (replica.observe(1.0).blocks, replica.observe(1.5).blocks) == (1, 2)
        assert (replica.observe(5.0).blocks, replica.observe(5.5).blocks) == (2, 3)


def test_observing_does_not_cut() -> None:
    replica = replica_of()
    submit(replica, 0.0, prompt=1, output=1000)
    for i in range(1, 900):
        assert replica.observe(i + 0.5).context == i + 1
    assert replica.plans == 2


# What can run at all


def test_a_request_that_needs_the_whole_pool_runs_alone() -> None:
    """5 blocks of 4 hold 20 tokens; the last token generated is never computed and takes no room."""
    replica = Replica(EngineConfiguration(6, 4, 8, 64), SECOND, longest_plan=1)
    sequences = [submit(replica, 0.0, prompt=13, output=8, request=i) for i in range(2)]
    assert replica.configuration.admits(13, 8)
    replica.advance(math.inf)
    assert replica.leaps()[:, BLOCKS].max() == 5
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
