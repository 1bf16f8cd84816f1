from __future__ import annotations

from dataclasses import replace

import pytest

from tests.truth.blis_stages import VARIABLE, folder
from tests.truth.vllm_cpu import (
    REPLAYS,
    RUNS,
    Agreement,
    LoggedRun,
    agreement,
    by_engine,
    elsewhere,
    logged,
    times,
)

EVERYTHING = Agreement(cached=1.0, preemptions=1.0, scheduled=1.0, first_token=1.0, finish=1.0, steps=1.0)
CACHED, _, _, STARVED = RUNS


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.file)
@pytest.mark.parametrize("replay", REPLAYS)
def test_every_step_of_a_real_engine_is_given_again(run: LoggedRun, replay: str) -> None:
    """Counts, so equal or not: each step's tokens, decodes, context, queues and free blocks; each request's hits."""
    assert agreement(logged(run), REPLAYS[replay](run)) == EVERYTHING


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.file)
def test_first_and_last_tokens_come_when_the_client_had_them(run: LoggedRun) -> None:
    """Within 0.5 % of the time since the run began, and 5 ms: a client on a busy core reads late by that much."""
    found = times(run, by_engine(run))
    assert max(found.first_token, found.finish) <= 0.005
    assert found.latest <= 0.005


def test_every_other_log_is_given_again() -> None:
    """All runs that were logged, where somebody has them.

    The machine of some had other work, and their clients read up to 25 ms late. So their times are not held to a
    share of the time since the run began, which is 0.3 s at the first requests; which step made a token is, and
    exactly.
    """
    others = elsewhere()
    if not others:
        pytest.skip(
            f"no logs in {folder() / 'vllm-cpu'}; {VARIABLE} can name a folder that has vllm-cpu/runs"
        )
    for run in others:
        found = by_engine(run)
        assert agreement(logged(run), found) == EVERYTHING, run.name
        assert times(run, found).latest <= 0.025, run.name


def test_the_logs_have_hits_and_preemptions_to_give_again() -> None:
    assert (logged(CACHED).cached > 0).mean() > 0.9
    assert (logged(STARVED).preemptions > 0).mean() > 0.1


@pytest.mark.parametrize(
    "wrong",
    [
        replace(STARVED, engine=replace(STARVED.engine, num_gpu_blocks=73)),
        replace(STARVED, engine=replace(STARVED.engine, reserve_full_prompt=False)),
        replace(STARVED, engine=replace(STARVED.engine, max_num_batched_tokens=511)),
        replace(CACHED, engine=replace(CACHED.engine, enable_prefix_caching=False)),
    ],
)
def test_another_engine_would_be_noticed(wrong: LoggedRun) -> None:
    assert agreement(logged(wrong), by_engine(wrong)).steps < 1.0
