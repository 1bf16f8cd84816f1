"""What an observer sees: the state at the last step boundary, as the plain replica has it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from capsim.engine import Observation, Replica
from tests.engine.replicas import SECOND, moments, replica_of, submit
from tests.engine.test_differential import DYADIC, configuration, reference, sequences_of
from tests.reference import TIE
from tests.strategies import Case, cases


@dataclass(frozen=True)
class Photograph:
    """The state of the plain replica once a batch was chosen; `context`: of the decoding sequences."""

    start: float
    end: float
    running: int
    waiting: int
    blocks: int
    context: int


def photographs(case: Case) -> list[Photograph]:
    plain, _ = reference(case, DYADIC)
    return [
        Photograph(
            step.start,
            step.start + step.seconds,
            step.running,
            step.waiting,
            case.usable_blocks - step.free,
            step.context,
        )
        for step in plain.steps
    ]


@settings(max_examples=300, deadline=None)
@given(cases(), st.lists(moments(), min_size=1, max_size=20))
def test_observation_is_the_reference_state_at_the_last_boundary(case: Case, looks: list[float]) -> None:
    taken = photographs(case)
    replica = Replica(configuration(case), DYADIC)
    queue = deque(sequences_of(case))
    for time in sorted(looks):
        while queue and queue[0].submitted <= time:
            replica.submit(queue[0], queue.popleft().submitted)
        seen = replica.observe(time)
        in_flight = [photograph for photograph in taken if photograph.start < time < photograph.end]
        if not in_flight:
            assert (seen.time, seen.running, seen.waiting, seen.blocks, seen.context) == (time, 0, 0, 0, 0)
            continue
        (then,) = in_flight
        came = sum(then.start + TIE < arrival <= time for arrival, _, _ in case.requests)
        assert seen == Observation(then.start, then.running, then.waiting + came, then.blocks, then.context)


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
