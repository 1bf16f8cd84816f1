"""A mistake of the user: one clear message, the right exit code, never a traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.conftest import QUICK_START, REPOSITORY, SMALL, Capsim, Printed
from tests.cost.profiles import document, write

AZURE = "demand.trace={{path: {path}, format: azure}}"


def changed(capsim: Capsim, *changes: str, command: str = "plan", file: Path = SMALL) -> Printed:
    options = [word for change in changes for word in ("--set", change)]
    printed = capsim(command, file, *options)
    assert "Traceback" not in printed.err
    assert printed.out == ""
    return printed


def trace(tmp_path: Path, text: str) -> str:
    path = tmp_path / "trace.csv"
    path.write_text(text)
    return AZURE.format(path=path)


@pytest.mark.parametrize("command", ["check", "fit", "run", "plan"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("demand.target=-3/s", "demand.target"),
        ("demand.target=0/s", "demand.target"),
        ("slo.ttft.p95=0ms", "slo.ttft.p95"),
        ("slo.ttft.p101=1s", "p101"),
        ("model=llama-3.1-8", "did you mean 'llama-3.1-8b'?"),
        ("gpu=h20", "h20"),
        ("gpu=h201", "did you mean 'h200'?"),
        ("engine.tensor_parallel_size=3", "engine.tensor_parallel_size"),
        ("engine.max_num_seq=3", "did you mean 'max_num_seqs'?"),
    ],
)
def test_bad_values(capsim: Capsim, command: str, change: str, message: str) -> None:
    printed = changed(capsim, change, command=command)
    assert printed.code == 2
    assert message in printed.err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty"),
        ("time,in,out\n1,2,3\n", "TIMESTAMP"),
        ("TIMESTAMP,ContextTokens,GeneratedTokens\n", "no "),
    ],
)
def test_bad_traces(capsim: Capsim, tmp_path: Path, text: str, message: str) -> None:
    printed = changed(capsim, "demand.synthetic=null", trace(tmp_path, text), command="check")
    assert printed.code == 2
    assert message in printed.err
    assert "trace.csv" in printed.err


def test_missing_trace(capsim: Capsim) -> None:
    printed = changed(capsim, "demand.trace.path=azure_conv_2032.csv", file=QUICK_START)
    assert printed.code == 2
    assert "did you mean 'azure_conv_2023.csv'?" in printed.err


def test_missing_scenario(capsim: Capsim) -> None:
    printed = capsim("plan", "nowhere.yaml")
    assert printed.code == 2
    assert "nowhere.yaml" in printed.err


def test_weights_that_do_not_fit(capsim: Capsim) -> None:
    printed = changed(capsim, "model=llama-3.3-70b", "engine.num_gpu_blocks=null", command="fit")
    assert printed.code == 3
    assert "GiB" in printed.err
    assert "tensor_parallel_size 2" in printed.err


def test_prompts_longer_than_the_whole_pool(capsim: Capsim) -> None:
    printed = changed(
        capsim,
        "engine.num_gpu_blocks=257",
        "demand.synthetic.prompt_tokens={distribution: fixed, value: 4090}",
        "demand.synthetic.output_tokens={distribution: fixed, value: 100}",
    )
    assert printed.code == 2
    assert "no request can be served" in printed.err


def test_a_profile_of_another_model(capsim: Capsim, tmp_path: Path) -> None:
    path = write(tmp_path, document())
    printed = changed(
        capsim, f"step_cost={{source: profile, path: {path}}}", "model=qwen3-32b", command="check"
    )
    assert printed.code == 2
    assert "qwen3-32b" in printed.err
    printed = changed(
        capsim, f"step_cost={{source: profile, path: {path}}}", "engine.dtype=fp8", command="check"
    )
    assert printed.code == 2
    assert "fp8" in printed.err


def test_unwritable_folder(capsim: Capsim, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    printed = capsim("plan", SMALL, "--out", tmp_path / "file" / "run")
    assert printed.code == 2
    assert "cannot write to" in printed.err


def test_an_infeasible_objective(capsim: Capsim) -> None:
    printed = changed(capsim, "slo.tpot.p95=1ms", "plan.duration=10s", "plan.replications=3")
    assert printed.code == 3
    assert "tpot p95" in printed.err


def test_options_that_exclude_one_another(capsim: Capsim) -> None:
    printed = capsim("run", SMALL, "--rate", "3/s", "--concurrency", "4")
    assert printed.code == 2
    assert "exclude" in printed.err


@pytest.mark.parametrize("rate", ["-3/s", "0/s", "3", "3 tokens/s", "quick"])
def test_bad_rates(capsim: Capsim, rate: str) -> None:
    printed = capsim("run", SMALL, "--rate", rate)
    assert printed.code == 2
    assert "--rate" in printed.err


def test_a_trace_that_is_not_there_cannot_be_replayed(capsim: Capsim) -> None:
    printed = capsim("run", SMALL, "--trace")
    assert printed.code == 2
    assert "synthetic" in printed.err


def test_errors_in_json(capsim: Capsim) -> None:
    printed = capsim("check", SMALL, "--json", "--set", "engine.block_size=-1", "--set", "gpu=h2000")
    assert printed.code == 2
    assert len(printed.json["faults"]) == 2
    printed = capsim(
        "fit", SMALL, "--json", "--set", "model=llama-3.3-70b", "--set", "engine.num_gpu_blocks=null"
    )
    assert printed.code == 3
    assert printed.json["remedies"]


LISTENING = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from capsim.cli.main import main
main()
"""
"""A shell that runs the tests in the background ignores Ctrl-C for them, and children inherit that: listen again."""


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_interrupted_plan_keeps_what_is_done(tmp_path: Path, jobs: str) -> None:
    """A real Ctrl-C, to the whole process group as a terminal sends it."""
    out = tmp_path / "run"
    command = [sys.executable, "-c", LISTENING, "plan", str(QUICK_START), "--out", str(out), "--jobs", jobs]
    process = subprocess.Popen(
        command,
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    ledger = out / "experiments.jsonl"
    deadline = time.monotonic() + 60
    while not (ledger.exists() and ledger.read_text().count("\n") >= 5) and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert "are kept in" in err
    assert ledger.read_text().count("\n") >= 5


def test_a_fleet_beyond_what_a_plan_tries(capsim: Capsim) -> None:
    printed = capsim("plan", SMALL, "--replicas", "5", "--set", "plan.max_replicas=2")
    assert printed.code == 2
    assert "--replicas: 5, expected at most plan.max_replicas, which is 2" in printed.err
