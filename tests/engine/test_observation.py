"""What an observer sees: the state at the last step boundary, as the plain replica has it."""

from __future__ import annotations

from collections import deque

from hypothesis import given, settings
from hypothesis import strategies as st

from capsim.engine import Replica, Sequence
from tests.engine.replicas import BLOCKS, SECOND, moments, replica_of, submit
from tests.engine.test_differential import DYADIC, configuration, fast
from tests.reference import TIE, ReferenceReplica, ReferenceSequence
from tests.strategies import Case, cases


class ObservedReference(ReferenceReplica):
    """The plain replica, photographed after each choice of a batch: start, running, waiting, blocks, context."""

    photographs: list[tuple[float, int, int, int, int]]

    def schedule(self, now: float) -> list[tuple[ReferenceSequence, int]]:
        work = super().schedule(now)
        context = sum(sequence.tokens for sequence in self.running if sequence.decoding)
        state = (now, len(self.running), len(self.waiting), self.usable - len(self.free), context)
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
        enable_prefix_caching=case.enable_prefix_caching,
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
