from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from calibrate.engine.batches import ADMISSIONS, SPREAD, STAGE, Case, Driver, Limits, cases, counts
from calibrate.engine.engine import EngineSettings
from calibrate.engine.measure import Measurement, measure
from calibrate.engine.step_log import COLUMNS, steps, write
from calibrate.engine_steps import read
from tests.calibrate.engine.stepping import SteppingEngine

LIMITS = Limits(sequences=16, step_tokens=256, length=1024, kv_tokens=20_000)


def run(folder: Path, case: Case) -> SteppingEngine:
    engine = SteppingEngine(folder)
    asyncio.run(Driver(engine, random.Random(1)).run(case))
    return engine


def test_a_round_has_every_kind_of_batch_inside_the_limits() -> None:
    found = cases(LIMITS, random.Random(1))
    assert {case.kind for case in found} == {"decode", "prefill", "admit"}
    for case in found:
        longest = (1 + SPREAD) * max(case.context, case.prompt) + STAGE * len(counts(LIMITS.sequences))
        assert longest <= LIMITS.length
        assert case.sequences + case.admitted <= LIMITS.sequences
        assert (1 + SPREAD) * case.context * case.sequences <= LIMITS.kv_tokens
    assert {case.sequences for case in found if case.kind == "admit"} == {1, 2, 4, 8, 15}
    assert max(case.prompt for case in found) > LIMITS.step_tokens


def test_rounds_differ_in_order_and_in_what_is_admitted() -> None:
    draw = random.Random(1)
    first, second = cases(LIMITS, draw), cases(LIMITS, draw)
    assert [case.name for case in first] != [case.name for case in second]
    assert cases(LIMITS, random.Random(1)) == first


@pytest.mark.parametrize(
    "limits", [Limits(1, 1, 64, 200), Limits(2, 8, 128, 400), Limits(256, 8192, 131_072, 400_000)]
)
def test_small_and_large_engines_have_rounds_too(limits: Limits) -> None:
    assert {case.kind for case in cases(limits, random.Random(1))} >= {"decode"}


def test_a_ladder_decodes_with_ever_fewer_sequences(tmp_path: Path) -> None:
    engine = run(tmp_path, Case("decode", 6, 100))
    decodes = [decodes for new, decodes in engine.steps if not new]
    # The first token comes from the prompt's step.
    assert [decodes.count(many) for many in (6, 4, 2, 1)] == [STAGE - 1, STAGE, STAGE, STAGE]
    assert engine.steps[0] == (tuple(len(prompt) for prompt in engine.prompts), 0)


def test_new_prompts_come_at_once_while_others_decode(tmp_path: Path) -> None:
    engine = run(tmp_path, Case("admit", 5, context=50, prompt=30, admitted=2))
    mixed = [(len(new), decodes) for new, decodes in engine.steps if new and decodes]
    assert mixed == [(2, 5)] * ADMISSIONS


def test_no_two_prompts_are_alike_and_lengths_vary(tmp_path: Path) -> None:
    engine = run(tmp_path, Case("decode", 16, 200))
    assert len({tuple(prompt) for prompt in engine.prompts}) == 16
    lengths = [len(prompt) for prompt in engine.prompts]
    assert len(set(lengths)) > 8
    assert 200 * (1 - SPREAD) - 1 <= min(lengths) < max(lengths) <= 200 * (1 + SPREAD) + 1


def test_a_measurement_is_a_file_of_steps_with_their_cases(tmp_path: Path) -> None:
    settings = EngineSettings(tmp_path, max_num_seqs=2, max_num_batched_tokens=32, max_model_len=128)
    engine = SteppingEngine(tmp_path / "log", settings)
    measurement = Measurement()
    asyncio.run(measure(engine, 0.001, 1, measurement))
    assert measurement.rounds == 1
    rows = list(steps(engine.log, measurement.spans, measurement.spans[0].first))
    assert all(len(row) == len(COLUMNS) for row in rows)
    assert write(tmp_path / "steps.csv", engine.header, rows) == len(rows)
    logged = read(tmp_path / "steps.csv")
    assert logged.header == engine.header
    assert {step.kind for step in logged.steps} == {"decode", "prefill", "admit"}
    # The warm-up is in the log and in no case.
    assert 0 < len(logged.steps) < len(engine.steps)
    assert all(step.execute is not None and step.execute < step.seconds for step in logged.steps)
    assert min(step.start for step in logged.steps) >= 0
