from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from capsim.errors import InvariantBroken
from capsim.fleet.log import Outcome, RunLog
from capsim.measure.conservation import check_conservation
from capsim.measure.leaps import AT_ONCE
from tests.measure.run_logs import leap, request, run_log, served, two_requests, with_requests


def changed(log: RunLog, column: str, row: int, value: Any) -> RunLog:
    values = getattr(log.requests, column).copy()
    values[row] = value
    return with_requests(log, **{column: values})


def leap_changed(log: RunLog, column: str, row: int, value: Any) -> RunLog:
    values = getattr(log.leaps, column).copy()
    values[row] = value
    return replace(log, leaps=replace(log.leaps, **{column: values}))


def preempted() -> RunLog:
    """A request of 4 tokens: prefill, one decode, preempted at 3 s for 1 s, recomputed, one decode.

    Its prompt of 8 and the token of its decode are lost and computed again with the one it generated last.
    """
    leaps = [
        leap(1.0, 1.0, chunks=1, prefill_tokens=8, decodes=0),
        leap(2.0, 1.0),
        leap(4.0, 1.0, chunks=1, prefill_tokens=10, decodes=0),
        leap(5.0, 1.0),
    ]
    row = served(0.0, 1.0, 2.0, 6.0, output=4, preemptions=1, recomputed=9)
    return run_log([row], leaps, resumed_gaps=np.array([2.0]))


def lost_and_retried() -> RunLog:
    """The first attempt made a first token and one more on replica 0; the second served all 3 on replica 1."""
    leaps = [
        leap(1.0, 1.0, chunks=1, prefill_tokens=8, decodes=0),
        leap(2.0, 1.0),
        leap(4.0, 1.0, chunks=1, prefill_tokens=8, decodes=0, replica=1),
        leap(5.0, 1.0, steps=2, replica=1),
    ]
    row = served(0.0, 4.0, 5.0, 7.0, submitted=3.5, output=3, attempts=2, replica=1)
    return run_log([row], leaps, lost_tokens=2, lost_first_tokens=1)


def found() -> RunLog:
    """A prompt of 40 of which 32 were in the cache, and a decode that takes a block in its second step."""
    leaps = [
        leap(1.0, 1.0, chunks=1, prefill_tokens=8, chunk_past=32, decodes=0, blocks=3, unfilled=8),
        leap(2.0, 1.0, steps=9, blocks=3, growth=1, unfilled=7),
    ]
    row = served(0.0, 1.0, 2.0, 11.0, prompt=40, output=10, cached=32)
    return run_log([row], leaps, pool_blocks=4)


def loaded() -> RunLog:
    """A prompt of 40 of which 16 were in a tier of KV offload."""
    leaps = [leap(1.0, 1.0, chunks=1, prefill_tokens=24, chunk_past=16, decodes=0, blocks=3)]
    return run_log([served(0.0, 1.0, 2.0, 2.0, prompt=40, output=1, loaded=16)], leaps)


def unfinished() -> RunLog:
    """A request of 9 tokens that had made 3 when the run was ended."""
    row = request(
        0.0, submitted=0.875, scheduled=1.0, first_token=2.0, output=9, attempts=1, outcome=Outcome.UNFINISHED
    )
    return run_log([row], [leap(1.0, 1.0, chunks=1, decodes=0), leap(2.0, 1.0, steps=2)], blocks_left=1)


@pytest.mark.parametrize(
    "log",
    [
        two_requests(),
        two_requests(request(2.0)),
        preempted(),
        lost_and_retried(),
        found(),
        loaded(),
        unfinished(),
        run_log([request(0.0)], []),
    ],
    ids=["served", "rejected", "preempted", "retried", "found", "loaded", "unfinished", "nothing served"],
)
def test_sound_runs_pass(log: RunLog) -> None:
    check_conservation(log)


@pytest.mark.parametrize(
    ("log", "numbers"),
    [
        (replace(two_requests(), blocks_left=3), "3 KV blocks"),
        (replace(unfinished(), blocks_left=-1), "-1 KV blocks"),
        (changed(two_requests(), "output", 0, 4), "4 tokens were generated .* and 5 were owed"),
        (leap_changed(two_requests(), "steps", 2, 2), "5 tokens were generated .* and 4 were owed"),
        (replace(two_requests(), resumed_gaps=np.array([1.0])), "1 after preemptions.* and 4 were owed"),
        (replace(preempted(), resumed_gaps=np.array([])), "3 tokens were generated .* and 4 were owed"),
        (replace(two_requests(), lost_tokens=1), "5 were owed .1 of them lost"),
        (replace(lost_and_retried(), lost_tokens=0), "5 tokens were generated .* and 3 were owed"),
        (replace(lost_and_retried(), lost_tokens=3), "6 were owed"),
        (changed(unfinished(), "output", 0, 1), "2 tokens were generated .* 1 unfinished"),
        (changed(two_requests(), "outcome", 0, 7), r"unknown outcomes \[7\]"),
        (changed(two_requests(), "outcome", 0, Outcome.LOST), "request 0 is LOST with finish 3.25"),
        (changed(two_requests(), "finish", 1, np.nan), "request 1 is COMPLETED with finish nan"),
        (changed(two_requests(), "scheduled", 1, np.nan), "request 1 is COMPLETED without scheduled"),
        (changed(two_requests(), "first_token", 0, 9.0), "request 0 has finish at 3.25 s before first_token at 9.0"),
        (changed(two_requests(), "arrival", 0, 1.0), "request 0 has submitted at 0.875 s before arrival at 1.0"),
        (leap_changed(two_requests(), "start", 2, 2.25), "starts a leap at 2.25 s and is busy until 2.5"),
        (leap_changed(two_requests(), "first", 0, -1.0), "leap 0 has 1 steps in -1.0 s"),
        (replace(found(), pool_blocks=3), "leap 1 holds 3 KV blocks and takes 1 of a pool of 3"),
        (leap_changed(found(), "growth", 1, -1), "leap 1 holds 3 KV blocks and takes -1"),
        (leap_changed(found(), "unfilled", 0, -1), "leap 0 has room for -1 tokens in 3 blocks of 16"),
        (leap_changed(found(), "unfilled", 0, 49), "leap 0 has room for 49 tokens in 3 blocks of 16"),
        (replace(found(), evictions=np.array([0, -2])), "evictions is -2 in row 1"),
        (changed(found(), "found", 0, -16), "found is -16 in row 0"),
        (changed(found(), "cached", 0, 40), "request 0 found 40 of its 40 prompt tokens"),
        (changed(found(), "cached", 0, 31), r"8 tokens were computed .* 9 were owed \(9 of prompts"),
        (changed(found(), "cached", 0, 33), "8 tokens were computed by prefill and 7 were owed"),
        (leap_changed(loaded(), "prefill_tokens", 0, 23), "23 tokens .* 24 were owed"),
        (leap_changed(loaded(), "prefill_tokens", 0, 25), "25 tokens .* 24 were owed"),
        (changed(preempted(), "recomputed", 0, 8), "18 tokens .* 17 were owed .8 of prompts, 8 computed"),
        (leap_changed(lost_and_retried(), "prefill_tokens", 2, -1), "7 tokens were computed .* 8 were owed"),
        (leap_changed(two_requests(), "running", 1, 3), "leaps hold 3.25 s .* requests 2.75 s"),
        (leap_changed(preempted(), "running", 1, 5), "leaps hold 8.0 s .* requests 5.0 s"),
    ],
)  # fmt: skip
def test_each_broken_law_is_reported_with_its_numbers(log: RunLog, numbers: str) -> None:
    with pytest.raises(InvariantBroken, match=numbers):
        check_conservation(log)


def test_leaps_that_are_looked_at_one_part_after_the_other_may_not_overlap_either() -> None:
    leaps = [
        leap(1.0, 1.0, chunks=1, prefill_tokens=8, decodes=0),
        *(leap(2.0 + step, 1.0) for step in range(AT_ONCE)),
    ]
    log = run_log([served(0.0, 1.0, 2.0, 2.0 + AT_ONCE, output=AT_ONCE + 1)], leaps)
    check_conservation(log)
    with pytest.raises(
        InvariantBroken, match=f"starts a leap at {AT_ONCE}.75 s and is busy until {AT_ONCE + 1}.0"
    ):
        check_conservation(leap_changed(log, "start", AT_ONCE, AT_ONCE + 0.75))


def test_leaps_of_two_replicas_may_overlap() -> None:
    log = two_requests()
    doubled = {
        name: np.concatenate([column, column])
        for name, column in vars(log.leaps).items()
        if name != "replica"
    }
    both = replace(log.leaps, **doubled, replica=np.repeat([0, 1], 3))
    twice = {name: np.concatenate([column, column]) for name, column in vars(log.requests).items()}
    check_conservation(with_requests(replace(log, leaps=both), **twice))


def test_a_run_without_requests_passes() -> None:
    log = two_requests()
    nothing = {name: column[:0] for name, column in vars(log.requests).items()}
    leaps = replace(log.leaps, **{name: column[:0] for name, column in vars(log.leaps).items()})
    check_conservation(with_requests(replace(log, leaps=leaps), **nothing))


def test_the_engine_s_ties_are_no_steps_back() -> None:
    check_conservation(changed(two_requests(), "submitted", 0, 1.0 + 0.9e-9))
