"""Sequences that are dropped and replicas that die: what is kept, what is lost, and that all KV is freed."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capsim.engine import Replica
from tests.engine.replicas import DECODES, STEPS, leap_table, moments, replica_of, submit
from tests.engine.test_differential import (
    DYADIC,
    configuration,
    plain_replica,
    plain_sequences,
    reference,
    sequences_of,
    times,
)
from tests.strategies import Case, cases, in_short_chunks, with_priorities


def queued_otherwise() -> st.SearchStrategy[Case]:
    """Cases with a threshold for prompts, with priorities, or with both."""
    return st.one_of(
        in_short_chunks(cases()), with_priorities(cases()), in_short_chunks(with_priorities(cases()))
    )


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
    assert leap_table(replica)[:, STEPS].sum() == 2


def test_abort_of_a_decoding_sequence_ends_it_at_the_next_boundary() -> None:
    replica = replica_of()
    stays = submit(replica, 0.0, prompt=3, output=10)
    leaves = submit(replica, 0.0, prompt=3, output=10)
    replica.abort(leaves, 4.5)
    replica.advance(math.inf)
    assert (leaves.generated, replica.lost_tokens) == (5, 5)
    assert math.isnan(leaves.finish)
    assert (stays.finish, replica.finished) == (10.0, [stays])
    assert leap_table(replica)[:, [STEPS, DECODES]].tolist() == [[1, 0], [4, 2], [5, 1]]


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


@settings(max_examples=250, deadline=None)
@given(cases(), st.data())
def test_aborts_match_the_reference(case: Case, data: st.DataObject) -> None:
    aborts_match(case, data)


@settings(max_examples=250, deadline=None)
@given(queued_otherwise(), st.data())
def test_aborts_match_with_short_chunks_and_priorities(case: Case, data: st.DataObject) -> None:
    aborts_match(case, data)


def aborts_match(case: Case, data: st.DataObject) -> None:
    """Blocks return to 0, others keep their token counts, and all times are those of the plain replica."""
    victims = data.draw(st.sets(st.integers(0, len(case.requests) - 1), max_size=8))
    aborts = sorted((case.requests[i][0] + data.draw(moments()), i) for i in victims)
    plain, expected = plain_replica(case, DYADIC), plain_sequences(case)
    plain.run(expected, [(time, expected[i]) for time, i in aborts])
    replica = Replica(configuration(case), DYADIC)
    sequences = sequences_of(case)
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


# fail


@settings(max_examples=300, deadline=None)
@given(st.one_of(cases(), queued_otherwise()), moments())
def test_fail_keeps_whole_steps_and_loses_the_one_in_flight(case: Case, death: float) -> None:
    plain, expected = reference(case, DYADIC)
    replica = Replica(configuration(case), DYADIC)
    sequences = sequences_of(case)
    told = [sequence for sequence in sequences if sequence.submitted <= death]
    for sequence in told:
        replica.submit(sequence, sequence.submitted)
    lost = replica.fail(death)
    by_then = [sum(time <= death for time in s.token_times) for s in expected[: len(told)]]
    assert [s.generated for s in told] == by_then
    assert {s.request for s in lost} == {s.request for s in told if not s.finish <= death}
    assert replica.lost_tokens == sum(s.generated for s in lost)
    assert (replica.blocks, replica.outstanding) == (0, 0)
    assert leap_table(replica)[:, STEPS].sum() == sum(s.start + s.seconds <= death for s in plain.steps)
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
