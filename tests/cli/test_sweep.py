"""``capsim sweep``, and what is left of it when it is killed."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.conftest import REPOSITORY, SMALL, Capsim
from tests.cli.test_mistakes import LISTENING

SHORT = ("--set", "plan.duration=10s", "--set", "plan.replications=4")
KILLED = ("sweep", str(SMALL), "--over", "rate=5..50/s:10", "--set", "plan.duration=40s")
TOTAL = 3 + 10 * 4
"""Simulations: of the saturated rate, and four of each rate, as all of them pass or fail at the first look."""


def made(err: str) -> int:
    """Simulations that a sweep says it made."""
    return int(re.search(r"(\d+) simulations? made", err)[1])  # type: ignore[index]


def test_a_sweep_answers_in_text_and_json(capsim: Capsim, tmp_path: Path) -> None:
    command = ("sweep", SMALL, "--over", "rate=5/s,10/s", *SHORT, "--jobs", "1")
    printed = capsim(*command, "--out", tmp_path / "run")
    assert printed.code == 0
    assert "Pass: 5/s; 10/s." in printed.out
    assert {path.name for path in (tmp_path / "run").iterdir()} == {
        "experiments.jsonl",
        "scenario.json",
        "sweep.json",
        "sweep.png",
    }
    result = capsim(*command, "--json").json
    assert result["schema"] == "capsim.sweep"
    assert result == json.loads((tmp_path / "run" / "sweep.json").read_text())


@pytest.fixture
def rates(capsim: Capsim, tmp_path: Path) -> Path:
    """Folder of a sweep."""
    capsim("sweep", SMALL, "--over", "rate=5/s,10/s", *SHORT, "--jobs", "1", "--out", tmp_path / "rates")
    return tmp_path / "rates"


def test_a_sweep_is_reported_again_byte_for_byte(capsim: Capsim, rates: Path, tmp_path: Path) -> None:
    printed = capsim("sweep", SMALL, "--over", "rate=5/s,10/s", *SHORT, "--jobs", "1", "--out", rates)
    picture = (rates / "sweep.png").read_bytes()
    (rates / "sweep.png").unlink()
    again = capsim("report", rates)
    assert (again.code, again.out) == (0, printed.out)
    assert again.err == f"written to {rates}: sweep.png\n"
    assert (rates / "sweep.png").read_bytes() == picture
    elsewhere = capsim("report", rates, "--json", "--out", tmp_path / "elsewhere")
    assert elsewhere.json == json.loads((rates / "sweep.json").read_text())
    assert [path.name for path in (tmp_path / "elsewhere").iterdir()] == ["sweep.png"]


def test_a_plan_in_the_folder_of_a_sweep_comes_first(capsim: Capsim, rates: Path) -> None:
    shutil.copy(REPOSITORY / "tests" / "report" / "plan.json", rates / "result.json")
    assert "knee.png" in capsim("report", rates).err
    assert "why 7 replicas" in capsim("explain", rates).out


def test_a_damaged_sweep_is_named(capsim: Capsim, rates: Path) -> None:
    sweep = json.loads((rates / "sweep.json").read_text())
    (rates / "sweep.json").write_text(json.dumps({**sweep, "over": []}))
    printed = capsim("report", rates)
    assert (printed.code, printed.out) == (2, "")
    assert f"{rates / 'sweep.json'}: lacks what a capsim.sweep holds" in printed.err
    (rates / "sweep.json").write_text(json.dumps({**sweep, "schema": "capsim.plan"}))
    printed = capsim("report", rates)
    assert printed.code == 2
    assert f"{rates / 'sweep.json'}: is a capsim.plan, expected capsim.sweep" in printed.err


def test_a_sweep_has_no_answer_to_explain(capsim: Capsim, rates: Path) -> None:
    printed = capsim("explain", rates)
    assert (printed.code, printed.out) == (2, "")
    assert f"{rates}: is a sweep's folder: sweep.json holds many points" in printed.err
    assert "capsim report prints a sweep again" in printed.err


def test_more_values_cost_only_themselves(capsim: Capsim, tmp_path: Path) -> None:
    def count(over: str) -> int:
        return made(
            capsim("sweep", SMALL, "--over", over, *SHORT, "--out", tmp_path / "run", "--jobs", "1").err
        )

    assert [count("rate=5/s,10/s"), count("rate=5/s,10/s"), count("rate=5/s,10/s,15/s")] == [11, 0, 4]


@pytest.mark.parametrize(
    ("over", "code", "message"),
    [
        ("rate=fast", 2, "--over rate: 'fast' is no quantity"),
        ("engine.max_num_seq=3", 2, "did you mean 'max_num_seqs'?"),
        ("rte=5/s", 2, "--over rte: unknown key, expected rate, concurrency or one of version, name, model"),
        ("rte=5/s", 2, "did you mean 'rate'?"),
        ("concurency=5", 2, "did you mean 'concurrency'?"),
        ("modle=llama-3.1-8b", 2, "did you mean 'model'?"),
        ("engine.max_num_seqs", 2, "goes over nothing"),
        ("engine.num_gpu_blocks=100", 3, "max_model_len 4096"),
    ],
)
def test_mistakes_are_told_at_once(capsim: Capsim, over: str, code: int, message: str) -> None:
    printed = capsim("sweep", SMALL, "--over", over)
    assert printed.code == code
    assert printed.out == ""
    assert message in printed.err
    assert "simulation" not in printed.err


def test_it_needs_something_to_go_over(capsim: Capsim) -> None:
    printed = capsim("sweep", SMALL)
    assert printed.code == 2
    assert "--over" in printed.err


def started(out: Path, jobs: int) -> subprocess.Popen[str]:
    """A sweep in a process group of its own, with a few simulations finished."""
    process = subprocess.Popen(
        [sys.executable, "-c", LISTENING, *KILLED, "--out", str(out), "--jobs", str(jobs)],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 60
    while finished(out) < 7 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    return process


def finished(out: Path) -> int:
    """Whole lines of the record of simulations."""
    path = out / "experiments.jsonl"
    return path.read_text(encoding="utf-8").count("\n") if path.exists() else 0


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_killed_sweep_loses_nothing_that_was_finished(capsim: Capsim, tmp_path: Path, jobs: int) -> None:
    """SIGKILL, which no program can answer: a second call makes what lacks, and the answer is the same."""
    out = tmp_path / "killed"
    process = started(out, jobs)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    kept = finished(out)
    assert 7 <= kept < TOTAL
    assert not (out / "sweep.json").exists()
    printed = capsim(*KILLED, "--out", out, "--jobs", jobs)
    assert printed.code == 0
    assert made(printed.err) == TOTAL - kept
    assert made(capsim(*KILLED, "--out", tmp_path / "whole", "--jobs", 2).err) == TOTAL
    assert (out / "sweep.json").read_bytes() == (tmp_path / "whole" / "sweep.json").read_bytes()


def test_an_interrupted_sweep_says_what_is_kept(tmp_path: Path) -> None:
    process = started(tmp_path / "run", 2)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert re.search(r"interrupted: \d+ finished simulations are kept in", err)
    assert finished(tmp_path / "run") >= 7
