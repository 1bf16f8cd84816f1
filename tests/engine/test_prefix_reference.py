"""The plain replica's prefix cache on cases worked out by hand: steps of one second, blocks of 4 tokens."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from hypothesis import HealthCheck, given, settings

from capsim.cost.constant import ConstantCost
from tests.reference import ReferenceReplica, ReferenceSequence
from tests.strategies import Case, Path, cases

SECOND = ConstantCost(1.0)
GREETING: Path = ((1, 8),)
"""Two blocks that many prompts open with."""


@dataclass(frozen=True)
class Request:
    arrival: float
    prompt: int
    output: int = 1
    path: Path = ()


def served(
    *requests: Request, blocks: int = 100, watermark: int = 0
) -> tuple[ReferenceReplica, list[ReferenceSequence]]:
    replica = ReferenceReplica(
        SECOND,
        usable_blocks=blocks,
        block_size=4,
        max_num_seqs=8,
        max_num_batched_tokens=64,
        enable_prefix_caching=True,
        watermark_blocks=watermark,
        checked=True,
    )
    sequences = [
        ReferenceSequence(name, request.arrival, request.prompt, request.output, path=request.path)
        for name, request in enumerate(requests)
    ]
    replica.run(sequences)
    return replica, sequences


def cached(*requests: Request, blocks: int = 100) -> list[int]:
    return [sequence.cached for sequence in served(*requests, blocks=blocks)[1]]


# What is found


def test_a_prompt_planned_earlier_in_the_same_step_is_found() -> None:
    replica, sequences = served(Request(0.0, 10, path=((1, 10),)), Request(0.0, 10, path=((1, 10),)))
    assert [sequence.cached for sequence in sequences] == [0, 8]
    assert [(step.prefill_tokens, step.free) for step in replica.steps] == [(12, 96)]


@pytest.mark.parametrize(("prompt", "found"), [(8, 4), (9, 8)])
def test_the_last_token_is_always_computed(prompt: int, found: int) -> None:
    assert cached(Request(0.0, 12, path=GREETING), Request(1.0, prompt, path=GREETING)) == [0, found]


@pytest.mark.parametrize(("end", "found"), [(3, 0), (4, 4), (6, 4), (7, 4), (8, 8)])
def test_a_block_is_found_only_if_all_of_it_is_shared(end: int, found: int) -> None:
    path = ((1, end),)
    assert cached(Request(0.0, 12, path=path), Request(1.0, 12, path=path)) == [0, found]


def test_a_conversation_finds_its_earlier_turns_and_no_other_branch() -> None:
    turn, branch = ((1, 6), (2, 14)), ((1, 6), (3, 14))
    requests = (
        Request(0.0, 14, path=turn),
        Request(1.0, 14, path=branch),
        Request(2.0, 22, path=(*turn, (4, 20))),
        Request(3.0, 22, path=(*turn, (4, 20))),
    )
    assert cached(*requests) == [0, 4, 12, 20]


def test_generated_tokens_are_nobody_elses() -> None:
    """Blocks that a sequence fills past its path, be it prompt or output, are found by itself alone."""
    assert cached(Request(0.0, 8, 20, path=GREETING), Request(9.0, 30, path=((1, 8), (2, 30)))) == [0, 8]


# What is lost


def test_the_tail_of_a_sequence_is_taken_first() -> None:
    long = ((1, 16),)
    requests = (Request(0.0, 16, path=long), Request(1.0, 12), Request(2.0, 17, path=long))
    replica, sequences = served(*requests, blocks=6)
    assert [sequence.cached for sequence in sequences] == [0, 0, 12]
    assert replica.evictions == 3  # one by the second, two of the second's own by the third


@pytest.mark.parametrize(
    ("used_again", "asked", "found"),
    [(True, 1, 8), (True, 2, 0), (False, 1, 0), (False, 2, 8)],
)
def test_what_was_used_least_recently_is_taken_first(used_again: bool, asked: int, found: int) -> None:
    """Two prompts fill the pool; three blocks are then taken: of the second, if the first was used once more."""
    requests = [Request(0.0, 9, path=((1, 8),)), Request(1.0, 9, path=((2, 8),))]
    if used_again:
        requests.append(Request(2.0, 9, path=((1, 8),)))
    requests += [Request(3.0, 12), Request(4.0, 9, path=((asked, 8),))]
    assert cached(*requests, blocks=6)[-1] == found


def test_a_shared_block_stays_while_one_of_its_owners_runs() -> None:
    replica, sequences = served(
        Request(0.0, 9, 1, GREETING),
        Request(0.0, 9, 6, GREETING),
        Request(1.0, 12),  # takes every free block
        Request(2.0, 9, 1, GREETING),
        blocks=6,
    )
    assert [sequence.cached for sequence in sequences] == [0, 8, 0, 8]
    assert [step.free for step in replica.steps[:3]] == [2, 0, 2]


@pytest.mark.parametrize("keeps_running", [0, 1])
def test_a_prompt_that_repeats_whole_is_held_twice_and_either_copy_is_found(keeps_running: int) -> None:
    """The second computes the last block again; whichever copy is free is taken, and the other one is still there."""
    outputs = [1, 1]
    outputs[keeps_running] = 2
    replica, sequences = served(
        *(Request(0.0, 8, output, GREETING) for output in outputs),
        Request(1.0, 12),  # takes every free block, the copy last
        Request(2.0, 9, path=GREETING),
        blocks=6,
    )
    assert [sequence.cached for sequence in sequences] == [0, 4, 0, 8]
    assert [step.free for step in replica.steps[:2]] == [3, 0]


def test_of_two_copies_the_first_one_is_used() -> None:
    """When the first sequence ends at 1, the third still holds its block: five are held once the second grows."""
    replica, sequences = served(
        Request(0.0, 8, 1, GREETING), Request(0.0, 8, 2, GREETING), Request(0.0, 9, 2, GREETING)
    )
    assert [sequence.cached for sequence in sequences] == [0, 4, 8]
    assert [step.free for step in replica.steps] == [96, 95]


# Preemption


def test_a_preempted_sequence_finds_its_blocks_again() -> None:
    """Its last block goes to the one that ran dry at 5; it comes back at 9 and computes 13 - 8 tokens."""
    replica, (first, second) = served(Request(0.0, 8, 9), Request(0.0, 8, 9), blocks=6)
    assert (second.preemptions, second.cached, second.found) == (1, 0, 8)
    assert replica.steps[9].prefill_tokens == 5
    assert (first.finish, second.finish) == (9.0, 13.0)


def test_a_preempted_sequence_finds_what_another_one_computed() -> None:
    """Its own copy of the second block is taken at 9; at 11 it finds that of the other."""
    replica, (_, second) = served(Request(0.0, 8, 11, GREETING), Request(0.0, 8, 6, GREETING), blocks=5)
    assert (second.preemptions, second.cached, second.found) == (1, 4, 8)
    assert (replica.evictions, second.finish) == (3, 12.0)


# Admission


def test_free_blocks_that_are_found_count_as_taken() -> None:
    """At 1 the last needs three of two free blocks, two of which it would find; at 6 one of the two is left."""
    _, (_, _, last) = served(
        Request(0.0, 9, path=GREETING), Request(1.0, 8, 5), Request(1.0, 9, path=GREETING), blocks=4
    )
    assert (last.scheduled, last.cached) == (6.0, 4)


@pytest.mark.parametrize(("watermark", "scheduled"), [(0, 0.0), (1, 3.0)])
def test_the_watermark_holds_back_the_queue(watermark: int, scheduled: float) -> None:
    _, (_, second) = served(Request(0.0, 8, 3), Request(0.0, 8), blocks=4, watermark=watermark)
    assert second.scheduled == scheduled


def test_the_watermark_is_ignored_when_nothing_runs() -> None:
    _, (only,) = served(Request(0.0, 16), blocks=4, watermark=3)
    assert only.scheduled == 0.0


# Always


def outcome(case: Case) -> tuple[ReferenceReplica, list[ReferenceSequence]]:
    replica = ReferenceReplica(
        SECOND,
        usable_blocks=case.usable_blocks,
        block_size=case.block_size,
        max_num_seqs=case.max_num_seqs,
        max_num_batched_tokens=case.max_num_batched_tokens,
        reserve_full_prompt=case.reserve_full_prompt,
        enable_prefix_caching=case.enable_prefix_caching,
        watermark_blocks=case.watermark_blocks,
        checked=True,
    )
    sequences = [
        ReferenceSequence(name, *request, path=path)
        for name, (request, path) in enumerate(zip(case.requests, case.paths, strict=True))
    ]
    replica.run(sequences)
    return replica, sequences


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(cases())
def test_the_cache_changes_what_is_computed_and_not_what_comes_out(case: Case) -> None:
    for enabled in (False, True):
        replica, sequences = outcome(replace(case, enable_prefix_caching=enabled))
        assert [sequence.generated for sequence in sequences] == [output for _, _, output in case.requests]
        assert len(replica.free) == case.usable_blocks
        assert not any(block.references for block in replica.pool.blocks)
        if not enabled:
            assert not any(sequence.cached or sequence.found for sequence in sequences)
            assert replica.evictions == 0


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(cases())
def test_what_is_not_found_is_computed(case: Case) -> None:
    """Without preemptions each prompt token is found or computed once; whole blocks are found, never the last token."""
    replica, sequences = outcome(case)
    computed = sum(step.prefill_tokens for step in replica.steps)
    found = sum(sequence.cached for sequence in sequences)
    if not any(sequence.preemptions for sequence in sequences):
        assert computed + found == sum(prompt for _, prompt, _ in case.requests)
    for sequence in sequences:
        assert sequence.cached % case.block_size == 0
        assert sequence.cached < sequence.prompt
