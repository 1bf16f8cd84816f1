"""Tiers of KV offload on cases worked out by hand: steps of one second, blocks of 4 tokens."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings

from capsim.engine import EngineConfiguration, Replica, Sequence
from capsim.engine.offload import Tier
from capsim.engine.sequence import Path
from tests.engine.replicas import SECOND, leap_table, moments
from tests.engine.test_differential import DYADIC, configuration, sequences_of
from tests.strategies import Case, offload_cases

GREETING: Path = ((1, 8),)
HOST = Tier("host", 1000, seconds_per_block=0.25, latency=0.5)


def offloading(*tiers: Tier, blocks: int = 6, max_num_batched_tokens: int = 64) -> Replica:
    configuration = EngineConfiguration(
        blocks + 1, 4, 8, max_num_batched_tokens, enable_prefix_caching=True, tiers=tiers
    )
    return Replica(configuration, SECOND)


def submitted(
    replica: Replica, time: float, prompt: int, output: int = 1, path: Path = (), request: int = 0
) -> Sequence:
    sequence = Sequence(request, prompt, output, time, path)
    replica.submit(sequence, time)
    return sequence


# What is loaded


def test_a_loaded_prefix_starts_later_and_computes_less() -> None:
    """At 2 the greeting has left the GPU; its two blocks take 0.5 + 2 * 0.25 s, and 9 - 8 tokens are left."""
    replica = offloading(HOST)
    submitted(replica, 0.0, 9, path=GREETING)
    submitted(replica, 1.0, 24)  # takes every block
    late = submitted(replica, 2.0, 9, path=GREETING)
    replica.advance(math.inf)
    assert (late.cached, late.loaded, late.scheduled, late.finish) == (0, 8, 3.0, 4.0)
    assert leap_table(replica)[:, [0, 2]].tolist() == [[0.0, 9.0], [1.0, 24.0], [3.0, 1.0]]


def test_what_the_gpu_has_is_not_loaded() -> None:
    """The third prompt takes 5 of 6 blocks: the second block of the greeting goes, the first one stays."""
    replica = offloading(HOST)
    submitted(replica, 0.0, 9, path=GREETING)
    submitted(replica, 1.0, 20)
    late = submitted(replica, 2.0, 9, path=GREETING)
    replica.advance(math.inf)
    assert (late.cached, late.loaded, late.scheduled) == (4, 4, 2.75)


def test_a_preempted_sequence_is_loaded_instead_of_computed_again() -> None:
    """Two grow to 3 blocks each in 5: at 5 the second is preempted with 12 tokens computed, and finds what is left."""
    replica = offloading(HOST, blocks=5)
    first, second = (submitted(replica, 0.0, 8, 9, request=number) for number in range(2))
    replica.advance(math.inf)
    assert (first.preemptions, second.preemptions) == (0, 1)
    assert second.found + second.loaded == 8
    assert second.recomputed == second.lost - 8
    assert [first.finish, replica.blocks] == [9.0, 0]


def test_one_read_has_one_latency_however_many_prompts_share_it() -> None:
    """Two nodes of one block each and 0.5 + 2 * 0.25 s: the border between them costs nothing."""
    path = ((1, 4), (2, 8))
    replica = offloading(HOST)
    submitted(replica, 0.0, 9, path=path)
    submitted(replica, 1.0, 24)
    late = submitted(replica, 2.0, 9, path=path)
    replica.advance(math.inf)
    assert (late.loaded, late.scheduled) == (8, 3.0)


def test_a_tier_reads_one_request_after_the_other() -> None:
    """Both ask at 3; the second one's blocks arrive one second after the first one's."""
    replica = offloading(HOST)
    for request, node in enumerate((1, 2)):
        submitted(replica, float(request), 9, path=((node, 8),))
    submitted(replica, 2.0, 24)
    late = [submitted(replica, 3.0, 9, path=((node, 8),)) for node in (1, 2)]
    replica.advance(math.inf)
    assert [sequence.loaded for sequence in late] == [8, 8]
    assert [sequence.scheduled for sequence in late] == [4.0, 5.0]


# What is kept


@pytest.mark.parametrize(("node", "loaded", "scheduled"), [(1, 4, 4.0), (2, 8, 3.5)])
def test_the_least_recently_used_goes_down_to_the_next_tier_and_its_tail_is_lost(
    node: int, loaded: int, scheduled: float
) -> None:
    """Three prompts leave 2 blocks each in 4 of host memory; the first one's go to the disk, which keeps one."""
    replica = offloading(Tier("host", 4, 0.25), Tier("disk", 1, 1.0), blocks=3)
    for request, path in enumerate((((1, 8),), ((2, 8),), ())):
        submitted(replica, float(request), 9, path=path, request=request)
    late = submitted(replica, 3.0, 9, path=((node, 8),))
    replica.advance(math.inf)
    assert (late.cached, late.loaded, late.scheduled) == (0, loaded, scheduled)


# The queue


def test_while_one_loads_those_behind_it_go_on() -> None:
    """At 2 the first of two begins to load until 3; the other one computes at once."""
    replica = offloading(HOST)
    submitted(replica, 0.0, 9, path=GREETING)
    submitted(replica, 1.0, 24)
    loading = submitted(replica, 2.0, 9, path=GREETING)
    behind = submitted(replica, 2.0, 4, 3)
    replica.advance(math.inf)
    assert (behind.scheduled, loading.scheduled) == (2.0, 3.0)
    assert behind.admitted < loading.admitted


def test_an_idle_replica_wakes_when_the_blocks_are_there() -> None:
    replica = offloading(HOST)
    submitted(replica, 0.0, 9, path=GREETING)
    submitted(replica, 1.0, 24)
    late = submitted(replica, 2.0, 9, path=GREETING)
    replica.advance(2.9)
    assert (math.isnan(late.scheduled), replica.blocks) == (True, 2)
    # Decisions wait until the clock is past the boundary, so whoever sleeps until then must wake a little later.
    assert 3.0 < replica.next_completion() <= 3.0 + 2e-9
    replica.advance(replica.next_completion())
    assert replica.next_completion() == 4.0
    replica.advance(4.5)
    assert late.scheduled == 3.0


def test_a_step_is_not_cut_by_a_load() -> None:
    """A leap is under way when blocks arrive at 3.25: the sequence starts at the step boundary at 4."""
    replica = offloading(Tier("host", 1000, 0.375, 0.5), blocks=8)
    submitted(replica, 0.0, 9, path=GREETING)
    submitted(replica, 1.0, 32)
    loading = submitted(replica, 2.0, 9, path=GREETING)
    submitted(replica, 2.0, 4, 10)
    replica.advance(math.inf)
    assert loading.scheduled == 4.0


# Sequences that go


@settings(max_examples=200, deadline=None)
@given(offload_cases(), moments())
def test_a_replica_that_dies_forgets_everything(case: Case, death: float) -> None:
    replica = Replica(configuration(case), DYADIC)
    told = [sequence for sequence in sequences_of(case) if sequence.submitted <= death]
    for sequence in told:
        replica.submit(sequence, sequence.submitted)
    lost = replica.fail(death)
    assert {s.request for s in lost} == {s.request for s in told if not s.finish <= death}
    assert (replica.blocks, replica.outstanding) == (0, 0)
    again = Sequence(0, *case.requests[0][1:], death + 1, case.paths[0])
    replica.submit(again, death + 1)
    replica.advance(math.inf)
    assert (again.scheduled, again.cached, again.loaded, replica.blocks) == (death + 1, 0, 0, 0)


@settings(max_examples=200, deadline=None)
@given(offload_cases(), moments(), moments())
def test_a_drained_replica_serves_what_it_began(case: Case, drained: float, aborted: float) -> None:
    """One sequence is aborted besides, if it is there; every block comes back."""
    replica = Replica(configuration(case), DYADIC)
    told = [sequence for sequence in sequences_of(case) if sequence.submitted <= drained]
    for sequence in told:
        replica.submit(sequence, sequence.submitted)
    if told and aborted >= told[-1].submitted and aborted <= drained:
        replica.abort(told[0], aborted)
    untouched = replica.drain(drained)
    replica.advance(math.inf)
    assert (replica.blocks, replica.outstanding) == (0, 0)
    assert all(math.isnan(sequence.scheduled) for sequence in untouched)
    ended = {sequence.request for sequence in replica.finished}
    assert ended | {s.request for s in untouched} >= {s.request for s in told[1:]}
