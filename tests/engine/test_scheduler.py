"""vLLM's rules on cases small enough to work out by hand: every step is one second, or as long as its tokens."""

from __future__ import annotations

import math
from typing import NamedTuple

import pytest

from capsim.cost.constant import ConstantCost
from capsim.cost.linear import LinearCost
from capsim.cost.step import StepCost
from capsim.engine import EngineConfiguration, Replica, Sequence
from capsim.engine.leap import LEAP_FIELDS
from tests.engine.replicas import leap_table

SECOND = ConstantCost(1.0)


class Leap(NamedTuple):
    """What the tests look at in a recorded leap."""

    start: float
    steps: int
    prefill_tokens: int
    chunks: int
    decodes: int
    blocks: int


def leaps(replica: Replica) -> list[Leap]:
    columns = [LEAP_FIELDS.index(name) for name in Leap._fields]
    return [Leap(*row) for row in leap_table(replica)[:, columns].tolist()]


def served(
    configuration: EngineConfiguration, *requests: tuple[float, int, int], cost: StepCost = SECOND
) -> tuple[Replica, list[Sequence]]:
    """Serve requests (arrival, prompt, output) to their end."""
    replica = Replica(configuration, cost)
    sequences = [Sequence(i, prompt, output, t) for i, (t, prompt, output) in enumerate(requests)]
    for sequence in sequences:
        replica.submit(sequence, sequence.submitted)
    replica.advance(math.inf)
    assert replica.blocks == replica.outstanding == 0
    return replica, sequences


# One budget of tokens


def test_a_long_prompt_is_computed_in_chunks() -> None:
    replica, (sequence,) = served(EngineConfiguration(100, 4, 8, 8), (0.0, 20, 1))
    assert [leap.prefill_tokens for leap in leaps(replica)] == [8, 8, 4]
    assert [leap.blocks for leap in leaps(replica)] == [2, 4, 5]
    assert (sequence.scheduled, sequence.first_token, sequence.finish) == (0.0, 3.0, 3.0)


def test_chunks_fill_the_budget_that_decodes_leave() -> None:
    replica, (_, _, late) = served(EngineConfiguration(100, 4, 8, 8), (0.0, 4, 9), (0.0, 4, 9), (2.5, 15, 1))
    assert leaps(replica)[2:5] == [
        Leap(3.0, 1, 6, 1, 2, 6),  # 6 of 8: two tokens are the decodes'; 2 + 2 blocks, and 2 for 6 tokens
        Leap(4.0, 1, 6, 1, 2, 7),
        Leap(5.0, 1, 3, 1, 2, 10),  # the decodes' lengths have reached 8: a block more each
    ]
    assert late.first_token == 6.0


def test_what_a_prompt_leaves_of_the_budget_goes_to_the_next() -> None:
    replica, (first, second) = served(EngineConfiguration(100, 4, 8, 8), (0.0, 12, 1), (0.0, 8, 1))
    assert [(leap.prefill_tokens, leap.chunks) for leap in leaps(replica)] == [(8, 1), (8, 2), (4, 1)]
    assert (first.first_token, second.scheduled, second.first_token) == (2.0, 1.0, 3.0)


def test_the_cost_sees_chunks_with_what_came_before_them() -> None:
    """8 tokens, then 8 after 8, then 4 after 16: 36 + (64 + 36) + (64 + 10) query-key pairs."""
    cost = LinearCost(base=1.0, per_query_key_pair=1.0)
    replica, (sequence,) = served(EngineConfiguration(100, 4, 8, 8), (0.0, 20, 1), cost=cost)
    assert sequence.finish == 3 + 36 + 100 + 74
    assert leap_table(replica)[:, LEAP_FIELDS.index("chunk_past")].tolist() == [0, 8, 16]


def test_the_cost_sees_the_context_of_decodes_with_their_new_token() -> None:
    """A prompt of 5 and 4 tokens out: the decodes read 6, 7 and 8 tokens."""
    cost = LinearCost(per_prefill_token=1.0, per_context_token=1.0)
    _, (sequence,) = served(EngineConfiguration(100, 4, 8, 8), (0.0, 5, 4), cost=cost)
    assert (sequence.first_token, sequence.finish) == (5.0, 5.0 + 6 + 7 + 8)


# Admission


def test_the_head_blocks_those_behind_it() -> None:
    """The second needs 5 of the 3 blocks left; the third would fit, and waits behind it all the same."""
    _, (first, second, third) = served(
        EngineConfiguration(7, 4, 8, 64), (0.0, 9, 3), (0.0, 20, 1), (0.0, 1, 1)
    )
    assert (first.scheduled, first.finish) == (0.0, 3.0)
    assert second.scheduled == third.scheduled == 3.0


@pytest.mark.parametrize(("reserve_full_prompt", "scheduled"), [(True, 4.0), (False, 1.0)])
def test_admission_by_whole_prompt_or_by_first_chunk(reserve_full_prompt: bool, scheduled: float) -> None:
    """While the first holds 2 of 6 blocks: 20 tokens need 5, their first chunk of 7 needs 2."""
    configuration = EngineConfiguration(7, 4, 8, 8, reserve_full_prompt=reserve_full_prompt)
    _, (first, second) = served(configuration, (0.0, 8, 4), (0.5, 20, 1))
    assert first.finish == 4.0
    assert second.scheduled == scheduled
    assert second.preemptions == (0 if reserve_full_prompt else 1)  # its second chunk finds one block of two


def test_an_admitted_prompt_can_run_short_of_blocks_that_decodes_took() -> None:
    """Whole-prompt admission looks at the blocks but does not hold them.

    12 tokens need 3 of the 4 blocks free at 1, and 6 of them take 2. At 2 each decode takes one more, so that the
    last 6 tokens find none: the prompt loses its two and starts again at 9, when the decodes have ended.
    """
    replica, (_, _, prompt) = served(EngineConfiguration(7, 4, 8, 8), (0.0, 3, 9), (0.0, 3, 9), (0.5, 12, 1))
    assert leaps(replica)[:3] == [
        Leap(0.0, 1, 6, 2, 0, 2),
        Leap(1.0, 1, 6, 1, 2, 4),
        Leap(2.0, 1, 0, 0, 2, 4),
    ]
    assert prompt.preemptions == 1
    assert (prompt.scheduled, prompt.first_token) == (1.0, 11.0)


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_max_num_seqs(limit: int) -> None:
    """5 requests of 3 steps each, `limit` at a time."""
    replica, sequences = served(EngineConfiguration(100, 4, limit, 64), *[(0.0, 2, 3)] * 5)
    assert leap_table(replica)[:, LEAP_FIELDS.index("running")].max() == limit
    assert [sequence.finish for sequence in sequences] == [3.0 * (1 + i // limit) for i in range(5)]


# Preemption


def test_preemption_takes_the_tail_to_the_front_and_admits_nobody_in_that_step() -> None:
    """Two sequences of 4 prompt tokens in 4 blocks of 4.

    Each holds 2 blocks once it has 5 tokens. At 5 both lengths are 8 and the first needs a third block: the second,
    at the tail, loses its two. The third, which waits for a slot, is not admitted at 5 although there is one now; at
    6 the second stands before it, needing 4 + 5 tokens = 3 of 1 free blocks.
    """
    replica, (first, second, third) = served(
        EngineConfiguration(5, 4, 2, 64), (0.0, 4, 8), (0.0, 4, 8), (2.5, 1, 1)
    )
    assert (first.preemptions, second.preemptions, third.preemptions) == (0, 1, 0)
    assert leaps(replica)[1:4] == [
        Leap(1.0, 4, 0, 0, 2, 4),
        Leap(5.0, 1, 0, 0, 1, 3),
        Leap(6.0, 2, 0, 0, 1, 3),
    ]
    assert first.finish == 8.0
    assert second.scheduled == 0.0
    assert third.scheduled == 8.0  # beside the second, which is ahead of it


def test_recompute_counts_prompt_and_generated_tokens_as_prefill() -> None:
    """The second had generated 5 tokens: it computes 4 + 5 at once, which makes its sixth, 4 s after its fifth."""
    replica, (_, second) = served(EngineConfiguration(5, 4, 2, 64), (0.0, 4, 8), (0.0, 4, 8))
    assert leaps(replica)[-2:] == [Leap(8.0, 1, 9, 1, 0, 3), Leap(9.0, 2, 0, 0, 1, 3)]
    assert replica.resumed_gaps == [9.0 - 5.0]
    assert (second.first_token, second.finish, second.generated) == (1.0, 11.0, 8)


def test_freed_blocks_admit_the_preempted_before_its_juniors() -> None:
    """As above, and the third would fit from 6 on: it waits behind the preempted one and joins its batch."""
    replica, (_, second, third) = served(
        EngineConfiguration(5, 4, 3, 64), (0.0, 4, 8), (0.0, 4, 8), (5.25, 1, 1)
    )
    assert second.preemptions == 1
    assert third.scheduled == 8.0
    assert leaps(replica)[-2] == Leap(8.0, 1, 10, 2, 0, 4)


def test_a_sequence_at_the_tail_preempts_itself() -> None:
    """Of 3 blocks the first holds 2 with room for 3 more tokens; the second fills its one and finds no other at 1."""
    replica, (first, second) = served(EngineConfiguration(4, 4, 3, 64), (0.0, 5, 3), (0.0, 4, 3))
    assert (first.preemptions, second.preemptions) == (0, 1)
    assert leaps(replica) == [
        Leap(0.0, 1, 9, 2, 0, 3),
        Leap(1.0, 1, 0, 0, 1, 2),
        Leap(2.0, 1, 0, 0, 1, 2),
        Leap(3.0, 1, 5, 1, 0, 2),
        Leap(4.0, 1, 0, 0, 1, 2),
    ]
    assert (first.finish, second.finish) == (3.0, 5.0)


def test_one_preemption_can_feed_several() -> None:
    """Three of 4 tokens in 6 blocks: at 5 the third gives two blocks, one to each; at 9 the second gives three."""
    replica, sequences = served(EngineConfiguration(7, 4, 3, 64), *[(0.0, 4, 12)] * 3)
    assert leaps(replica)[2:5] == [
        Leap(5.0, 1, 0, 0, 2, 6),
        Leap(6.0, 3, 0, 0, 2, 6),
        Leap(9.0, 1, 0, 0, 1, 4),
    ]
    assert [sequence.generated for sequence in sequences] == [12, 12, 12]


def test_preemption_takes_a_half_computed_prompt_first() -> None:
    """A prompt in chunks is the last admitted; a decode that needs its block takes all it has computed."""
    replica, (first, second) = served(
        EngineConfiguration(6, 4, 4, 4, reserve_full_prompt=False), (0.0, 4, 12), (3.5, 16, 1)
    )
    assert first.preemptions == 0
    assert first.finish == 12.0
    assert second.preemptions >= 1
    assert second.scheduled == 4.0
    assert math.isnan(second.last_token)  # it had made no token, so no gap is recorded
    assert replica.resumed_gaps == []


# How long a plan holds


def test_decodes_alone_hold_until_the_first_ends() -> None:
    replica, _ = served(EngineConfiguration(1000, 4, 8, 64), (0.0, 1, 50), (0.0, 1, 90), (0.0, 1, 50))
    assert [(leap.steps, leap.decodes) for leap in leaps(replica)] == [(1, 0), (49, 3), (40, 1)]


def test_decodes_hold_until_the_pool_runs_dry() -> None:
    """Two of 4 tokens in 10 blocks of 4: 5 blocks each last for 20 tokens, 16 steps."""
    replica, _ = served(EngineConfiguration(11, 4, 8, 64), (0.0, 4, 30), (0.0, 4, 30))
    assert leaps(replica)[1] == Leap(1.0, 16, 0, 0, 2, 4)
    assert leaps(replica)[2].decodes == 1
