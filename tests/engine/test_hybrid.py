"""Windows and states on cases worked out by hand: steps of one second, blocks of 4 tokens."""

from __future__ import annotations

import math

import pytest

from capsim.engine import EngineConfiguration, Replica
from capsim.engine.footprint import Footprint
from tests.engine.replicas import SECOND, submit


def hybrid(groups: Footprint, blocks: int = 100, max_num_batched_tokens: int = 64) -> Replica:
    return Replica(EngineConfiguration(blocks + 1, 4, 8, max_num_batched_tokens, groups=groups), SECOND)


def blocks_at(replica: Replica, *times: float) -> list[int]:
    return [replica.observe(time).blocks for time in times]


def test_a_window_frees_its_blocks() -> None:
    """A window of 5 in one of two groups; n tokens computed leave floor((n - 4) / 4) of its blocks behind.

    The prompt of 10 takes 2 * 3 blocks and leaves one behind when it ends at 1. The 12 tokens computed at 3 leave a
    second one behind, and the step from 3 on, of token 13, takes one in each group. Token 16, at 7, leaves a third.
    """
    replica = hybrid(Footprint(4, growing=2, window=5, windowed=1))
    submit(replica, 0.0, prompt=10, output=20)
    assert blocks_at(replica, 0.5, 1.0, 2.5, 3.0, 3.5, 7.0, 7.5) == [6, 5, 5, 4, 6, 5, 7]


def test_a_sequence_in_a_window_alone_stops_growing() -> None:
    """Of a window of 5 tokens nobody ever holds more than 3 blocks of 4, where 300 tokens would take 75."""
    replica = hybrid(Footprint(4, growing=1, window=5, windowed=1), blocks=3, max_num_batched_tokens=8)
    sequence = submit(replica, 0.0, prompt=6, output=294)
    assert max(blocks_at(replica, *(0.5 + step for step in range(294)))) == 2
    replica.advance(math.inf)
    assert (sequence.finish, replica.blocks) == (294.0, 0)


def test_a_state_takes_its_blocks_with_the_first_tokens_and_keeps_them() -> None:
    """Three blocks of state beside one of tokens, and a second one with token 5, which the step from 2 on computes."""
    replica = hybrid(Footprint(4, growing=1, constant=3))
    submit(replica, 0.0, prompt=3, output=4)
    assert blocks_at(replica, 0.5, 1.5, 2.5, 3.5, 4.0) == [4, 4, 5, 5, 0]


def test_states_limit_how_many_run_at_once() -> None:
    """Each takes 3 + 1 blocks of 9: two run, the third one waits until they end."""
    replica = hybrid(Footprint(4, growing=1, constant=3), blocks=9)
    sequences = [submit(replica, 0.0, prompt=3, output=2, request=number) for number in range(3)]
    replica.advance(math.inf)
    assert [sequence.scheduled for sequence in sequences] == [0.0, 0.0, 2.0]


@pytest.mark.parametrize(("blocks", "admitted"), [(3, False), (4, True)])
def test_a_prompt_longer_than_the_pool_is_admitted_in_windows(blocks: int, admitted: bool) -> None:
    """400 tokens are 100 blocks; in steps of 8 a window of 5 holds at most ceil((4 + 8) / 4) + 1 of them."""
    replica = hybrid(Footprint(4, growing=1, window=5, windowed=1), blocks, max_num_batched_tokens=8)
    assert bool(replica.configuration.admits(400, 1)) is admitted
    sequence = submit(replica, 0.0, prompt=400, output=1)
    replica.advance(math.inf)
    assert (sequence.finish == 50.0) is admitted
    assert replica.blocks == 0


def test_blocks_that_a_window_leaves_behind_let_the_queue_in() -> None:
    """A window of 6: token 9, computed from 1 on, takes a third block of 5 and leaves one behind at 2.

    The second asks for 3 at 1, when 2 are left, and gets them at 2, in the midst of what would be one leap.
    """
    replica = hybrid(Footprint(4, growing=1, window=6, windowed=1), blocks=5, max_num_batched_tokens=16)
    submit(replica, 0.0, prompt=8, output=12)
    second = submit(replica, 0.5, prompt=10, output=1)
    replica.advance(math.inf)
    assert second.scheduled == 2.0


def test_a_preempted_sequence_gives_back_states_and_windows() -> None:
    """Each takes 2 + 2 blocks, and two more with its token 5; of 9 one is left, so the second one makes room."""
    replica = hybrid(Footprint(4, growing=2, constant=2), blocks=9)
    first, second = (submit(replica, 0.0, prompt=4, output=4, request=number) for number in range(2))
    assert blocks_at(replica, 0.5, 1.5) == [8, 6]
    replica.advance(math.inf)
    assert (first.preemptions, second.preemptions) == (0, 1)
    assert (first.finish, second.scheduled, replica.blocks) == (4.0, 0.0, 0)
