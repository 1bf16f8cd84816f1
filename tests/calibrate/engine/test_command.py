from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest

from calibrate.command import calibrate
from calibrate.engine.engine import EngineSettings, argument
from calibrate.engine.parts import parts_of, parts_text
from calibrate.engine_steps import EngineStep, read
from capsim.benchmark.reader import read_benchmark
from capsim.cost import BatchShape, Chunk
from capsim.errors import BadInput
from tests.calibrate.engine.stepping import SteppingEngine

MODEL = ("--model", "llama-3.1-8b")
LIMITS = ("--max-num-seqs", "2", "--max-num-batched-tokens", "32", "--max-model-len", "128")


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[SteppingEngine]]:
    """Stands in for the file that knows vLLM; the engines that were started."""
    started: list[SteppingEngine] = []

    def start(settings: EngineSettings, log: Path) -> SteppingEngine:
        started.append(SteppingEngine(log, settings))
        return started[-1]

    module = ModuleType("calibrate.engine.vllm_engine")
    module.__dict__["start"] = start
    monkeypatch.setitem(sys.modules, module.__name__, module)
    yield started
    assert all(engine.stopped for engine in started)


def run(*arguments: object) -> None:
    calibrate.main([str(each) for each in arguments], standalone_mode=False)


def test_engine_writes_the_steps_and_what_was_measured(
    engines: list[SteppingEngine], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "steps.csv"
    run("engine", *MODEL, *LIMITS, "--engine-arg", "block_size=32", "--minutes", 1e-5, "--out", out, "--json")
    answer = json.loads(capsys.readouterr().out)
    logged = read(out)
    assert answer["count"] == len(logged.steps)
    assert set(answer["parts"]) == {"decodes alone", "with prompts"}
    assert sum(part["steps"] for part in answer["parts"].values()) == len(logged.steps)
    assert logged.header.model == "llama-3.1-8b"
    assert logged.header.shapes["layers"] == 32
    [engine] = engines
    assert engine.settings.members()["block_size"] == 32
    assert (engine.settings.max_num_seqs, engine.settings.max_model_len) == (2, 128)


def test_parts_are_medians_by_kind_of_step_and_add_up() -> None:
    def step(chunks: tuple[Chunk, ...], seconds: float, execute: float | None) -> EngineStep:
        return EngineStep(BatchShape(chunks, 1, 10), seconds, 0.001, execute, 0.002, 0.0, 0, "", "", True)

    parts = parts_of([step((), seconds, seconds - 0.007) for seconds in (0.010, 0.020, 0.060)])
    assert parts == {
        "decodes alone": pytest.approx(
            {"steps": 3, "whole": 0.020, "schedule": 0.001, "execute": 0.013, "sample": 0.002, "rest": 0.004}
        )
    }
    unknown = parts_of([step((Chunk(5, 0),), 0.01, None)])
    assert unknown["with prompts"]["execute"] is None
    assert parts_text(unknown)[-1].split() == ["with", "prompts", "1", "10.00", "1.000", "-", "2.000", "-"]


def test_an_interruption_keeps_what_was_measured(
    engines: list[SteppingEngine], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from calibrate.engine.batches import Case, Driver

    ran: list[Case] = []
    original = Driver.run

    async def interrupted(self: Driver, case: Case) -> None:
        if len(ran) == 3:
            raise KeyboardInterrupt
        ran.append(case)
        await original(self, case)

    monkeypatch.setattr(Driver, "run", interrupted)
    run("engine", *MODEL, *LIMITS, "--minutes", 1, "--out", tmp_path / "steps.csv")
    assert {step.case for step in read(tmp_path / "steps.csv").steps} == {case.name for case in ran}
    assert engines


def test_replay_writes_a_result_and_the_steps_of_the_run(
    engines: list[SteppingEngine], tmp_path: Path
) -> None:
    trace = tmp_path / "trace.jsonl"
    rows = [{"timestamp": 10 * place, "input_length": 8, "output_length": 4} for place in range(5)]
    trace.write_text("".join(json.dumps(row) + "\n" for row in rows))
    out, steps = tmp_path / "result.json", tmp_path / "steps.csv"
    run("replay", *MODEL, "--trace", trace, "--requests", 3, "--rate", 100, "--steps", steps, "--out", out)
    [benchmark] = read_benchmark(out)
    assert len(benchmark.prompt) == 3
    admitted = sum(step.admitted for step in read(steps).steps)
    assert admitted == 3
    assert engines[0].forgotten == 1


@pytest.mark.skipif(find_spec("vllm") is not None, reason="vllm is installed here")
def test_without_the_engine_the_answer_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(
        BadInput, match=r"vllm: is not installed in this Python, expected pip install vllm, or"
    ):
        run("engine", *MODEL, "--out", tmp_path / "steps.csv")


def test_an_argument_of_the_engine_needs_a_value(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="--engine-arg: 'block_size', expected NAME=VALUE"):
        run("engine", *MODEL, "--engine-arg", "block_size", "--out", tmp_path / "steps.csv")


def test_arguments_are_numbers_truth_values_or_text() -> None:
    assert [argument(text) for text in ("32", "-1", "0.5", "true", "False", "none", "fp8")] == [
        32,
        -1,
        0.5,
        True,
        False,
        None,
        "fp8",
    ]
