from __future__ import annotations

from dataclasses import replace

import pytest

from tests.truth.vllm_cpu import REPLAYS, RUNS, Agreement, LoggedRun, agreement, by_engine, logged

EVERYTHING = Agreement(cached=1.0, preemptions=1.0, scheduled=1.0, steps=1.0)
CACHED, _, _, STARVED = RUNS


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.file)
@pytest.mark.parametrize("replay", REPLAYS)
def test_every_step_of_a_real_engine_is_given_again(run: LoggedRun, replay: str) -> None:
    """Counts, so equal or not: each step's tokens, decodes, context, queues and free blocks; each request's hits."""
    assert agreement(logged(run), REPLAYS[replay](run)) == EVERYTHING


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
