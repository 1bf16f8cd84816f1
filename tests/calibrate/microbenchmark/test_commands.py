from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from calibrate.command import calibrate
from calibrate.microbenchmark import run_command
from calibrate.microbenchmark.case import STEP, Batch, Case
from calibrate.microbenchmark.machine import Condition
from capsim.cost import load_profile
from capsim.errors import BadInput
from tests.calibrate.microbenchmark.fake_bench import GAP, TINY, FakeBench, run_of

Run = Callable[..., str]
STEPS_HEADER = (
    "t_start,t_sched_end,t_end,n_prefill_reqs,prefill_tokens,prefill_ctx,n_decode,decode_ctx,chunks\n"
)


def slow_steps(case: Case) -> float:
    """Steps that no table has seen take longer than the tables say."""
    return 1.3 if (case.kind, case.name) == (STEP, "random") else 1.0


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*arguments: object) -> str:
        calibrate.main([str(argument) for argument in arguments], standalone_mode=False)
        return capsys.readouterr().out

    return run


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    out = tmp_path / "raw.jsonl"
    run_of(FakeBench(), out).measure()
    return out


def test_plan_says_shapes_and_time_before_any_run(run: Run) -> None:
    printed = run("plan", "--model", "llama-3.1-8b", "--gpu", "h200", "--minutes", "5")
    assert "full tables" in printed
    assert "32 layers are measured as a whole" in printed
    assert "1, 2, 4, 8, 16, 17, 32, 33, 48" in printed
    assert "tokens of KV fit beside the weights" in printed


def test_plan_as_json(run: Run) -> None:
    answer: dict[str, Any] = json.loads(
        run("plan", "--model", "llama-3.1-8b", "--gpu", "h200", "--dtype", "fp8", "--tp", "2", "--json")
    )
    assert answer["dtype"] == "fp8"
    assert answer["total"] < 60 * answer["minutes"]
    assert answer["cases"]["communication"] > 0
    assert answer["limits"]["kv_tokens"] > 900_000


def test_plan_says_when_no_plan_is_short_enough(run: Run) -> None:
    printed = run("plan", "--model", "llama-3.1-8b", "--gpu", "h200", "--minutes", "1")
    assert "more than 1 minutes: no sparser tables are known" in printed.splitlines()[0]


def test_experts_in_fp8_are_refused(run: Run) -> None:
    with pytest.raises(BadInput, match="grouped products are measured in bf16 only"):
        run("plan", "--model", "qwen3-30b-a3b", "--gpu", "h200", "--dtype", "fp8")


def test_a_model_with_experts_can_be_planned(run: Run) -> None:
    answer = json.loads(run("plan", "--model", "qwen3-30b-a3b", "--gpu", "h200", "--json"))
    assert answer["limits"]["layers"] == 48


@pytest.mark.parametrize(
    ("option", "value", "refusal"),
    [
        ("--model", "lama-3.1-8b", r"^--model: 'lama-3.1-8b' is not in the catalog.*mean 'llama-3.1-8b'\?$"),
        ("--gpu", "h300", r"^--gpu: 'h300' is not in the catalog.*did you mean 'h200'\?$"),
        (
            "--tp",
            "3",
            r"^--tp: tensor_parallel_size 3 does not divide .*, expected one of 1, 2, 4, 8, 16, 32$",
        ),
    ],
)
def test_a_fault_names_its_option(run: Run, option: str, value: str, refusal: str) -> None:
    words = {"--model": "llama-3.1-8b", "--gpu": "h200", "--tp": "1"} | {option: value}
    with pytest.raises(BadInput, match=refusal):
        run("plan", *(word for pair in words.items() for word in pair))


def test_ranks_that_cannot_share_the_model_of_steps_are_refused(run: Run, tmp_path: Path) -> None:
    steps, out = steps_file(tmp_path, 0.0), tmp_path / "profile.json"
    with pytest.raises(BadInput, match=r"^--tp: .*, expected one of 1, 2, 4, 8$"):
        run("fit", "--engine-steps", steps, "--model", TINY, "--gpu", "l4", "--tp", "3", "--out", out)


def test_a_fault_in_a_models_file_keeps_its_place(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "model.yaml"
    path.write_text(TINY.read_text(encoding="utf-8").replace("layers: 6", "layers: six"), encoding="utf-8")
    with pytest.raises(BadInput, match=r"model\.yaml:5:9: layers: "):
        run("plan", "--model", path, "--gpu", "h200")


def test_without_torch_the_command_says_what_to_install_and_nothing_of_the_load(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setattr(run_command, "cpu_condition", lambda: Condition(load=1000.0))
    with pytest.raises(BadInput, match=r"pip install 'capsim\[calibrate\]'"):
        run("run", "--model", TINY, "--device", "cpu", "--out", tmp_path / "raw.jsonl")
    assert not capsys.readouterr().err


def test_neither_capsim_nor_its_help_nor_a_plan_needs_torch() -> None:
    code = (
        "import sys; from capsim.cli.main import main\n"
        "for words in (['--help'], ['calibrate', '--help'], ['calibrate', 'run', '--help'],\n"
        "              ['calibrate', 'plan', '--model', 'llama-3.1-8b', '--gpu', 'h200']):\n"
        "    try: main(words)\n"
        "    except SystemExit as ended: assert not ended.code, words\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def test_fit_writes_a_profile_and_says_how_good_it_is(run: Run, raw: Path, tmp_path: Path) -> None:
    out = tmp_path / "profile.json"
    printed = run("fit", raw, "--out", out, "--host-overhead", "1ms", "--measured-by", "a test")
    profile = load_profile(out)
    assert profile.host == 0.001
    assert profile.held_out
    assert profile.provenance.measured_by == "a test"
    for words in (
        "whole steps of random batches, which the fit has not seen",
        "of repeats",
        "measured again",
        "attention at shapes that the tables lack",
        "one request alone",
        "activations of 256 tokens",
        "host: 1ms a step, assumed",
    ):
        assert words in printed


def test_fit_as_json(run: Run, raw: Path, tmp_path: Path) -> None:
    answer = json.loads(run("fit", raw, "--out", tmp_path / "profile.json", "--json"))
    assert {each["regime"] for each in answer["steps"]} == {"prefill", "decode", "mixed"}
    assert answer["memory"]["weights"] == 1 << 20
    assert answer["alone"]["prompt"] == 256
    assert answer["repeats"]


def test_fit_of_a_quiet_measurement_warns_of_nothing(run: Run, raw: Path, tmp_path: Path) -> None:
    answer = json.loads(run("fit", raw, "--out", tmp_path / "profile.json", "--json"))
    assert not answer["warnings"]
    assert "Repeats of one call spread by 1.0 % in the median of the rows." in answer["notes"]
    assert not any("WARNING" in note for note in answer["notes"])


@pytest.mark.parametrize(
    ("bench", "warning"),
    [
        (
            FakeBench(spread=0.2),
            "repeats of one call spread by 20.0 % in the median of the rows, above the 5 %",
        ),
        (FakeBench(scales=slow_steps), "the error on held-out cases ("),
    ],
)
def test_fit_warns_of_what_scatters_and_the_profile_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], bench: FakeBench, warning: str
) -> None:
    raw, out = tmp_path / "raw.jsonl", tmp_path / "profile.json"
    bench.conditions = [Condition(load=1.5), Condition(load=12.25)]
    run_of(bench, raw).measure()
    calibrate.main(["fit", str(raw), "--out", str(out), "--json"], standalone_mode=False)
    printed = capsys.readouterr()
    (told,) = json.loads(printed.out)["warnings"]
    assert told.startswith(warning)
    assert "measure again on an idle machine" in told
    assert f"warning: {told}\n" in printed.err
    notes = load_profile(out).provenance.notes
    assert f"WARNING: {told}." in notes
    assert "The machine's load was between 1.5 and 12.2." in notes


def test_the_data_sheet_of_another_machine_is_refused(run: Run, raw: Path, tmp_path: Path) -> None:
    with pytest.raises(
        BadInput, match=r"^--gpu: h200: .*raw\.jsonl was measured on a CPU, a law, expected cpu-core$"
    ):
        run("fit", raw, "--gpu", "h200", "--out", tmp_path / "profile.json")
    other = tmp_path / "gpu.jsonl"
    run_of(FakeBench(name="NVIDIA H200", graphs=True), other).measure()
    with pytest.raises(BadInput, match=r"^--gpu: h100-sxm: .* was measured on NVIDIA H200, expected h200$"):
        run("fit", other, "--gpu", "h100", "--out", tmp_path / "profile.json")


def steps_file(folder: Path, host: float) -> Path:
    """Decode steps of an engine on the law's device, with a host."""
    bench = FakeBench()
    run_of(bench, folder / "none.jsonl")
    bench.plan = run_of(bench, folder / "none.jsonl").plan
    lines = [STEPS_HEADER]
    start = 0.0
    for decodes in (1, 2, 4, 8, 16, 32):
        for context in (127, 255, 511, 1023):
            batch = Batch.equal(0, 0, decodes, context)
            seconds = host + bench.seconds(Case(STEP, "", batch=batch))
            lines.append(f"{start},{start},{start + seconds},0,0,0,{decodes},{decodes * context},\n")
            start += seconds
    for new in (16, 32, 64, 128, 200, 256):
        seconds = host + bench.seconds(Case(STEP, "", batch=Batch.equal(new, 0, 0, 0)))
        lines.append(f"{start},{start},{start + seconds},1,{new},0,0,0,{new}@0\n")
        start += seconds
    path = folder / "steps.csv"
    path.write_text("".join(lines), encoding="utf-8")
    return path


def test_the_host_is_what_an_engines_steps_take_beyond_the_tables(
    run: Run, raw: Path, tmp_path: Path
) -> None:
    steps, out = steps_file(tmp_path, 0.002), tmp_path / "profile.json"
    answer = json.loads(run("fit", raw, "--engine-steps", steps, "--out", out, "--json"))
    assert answer["host"]["tag"] == "fitted"
    # To within what the tables are off: the gap of a layer is far below it.
    assert answer["host"]["seconds"] == pytest.approx(0.002, abs=10 * GAP)
    assert answer["host"]["engine_steps"]["steps"] == 30
    assert load_profile(out).host == pytest.approx(answer["host"]["seconds"], rel=1e-5)


def test_a_host_is_told_once(run: Run, raw: Path, tmp_path: Path) -> None:
    steps = steps_file(tmp_path, 0.002)
    with pytest.raises(BadInput, match="the engine's steps tell it"):
        run("fit", raw, "--engine-steps", steps, "--host-overhead", "1ms", "--out", tmp_path / "profile.json")


def test_steps_alone_make_a_profile_too(run: Run, tmp_path: Path) -> None:
    steps, out = steps_file(tmp_path, 0.0), tmp_path / "profile.json"
    printed = run("fit", "--engine-steps", steps, "--model", TINY, "--gpu", "l4", "--out", out)
    assert "written" in printed
    assert load_profile(out).provenance.model == "tiny-llama"


def test_nothing_to_fit_is_refused(run: Run, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="nothing to fit"):
        run("fit", "--out", tmp_path / "profile.json")
    steps = steps_file(tmp_path, 0.0)
    with pytest.raises(BadInput, match="do not say of which model"):
        run("fit", "--engine-steps", steps, "--out", tmp_path / "profile.json")


def test_fp8_on_a_gpu_without_it_is_refused(run: Run) -> None:
    with pytest.raises(BadInput, match="a100-80gb-sxm has no arithmetic of this dtype"):
        run("plan", "--model", "llama-3.1-8b", "--gpu", "a100", "--dtype", "fp8")
