from __future__ import annotations

import csv
from pathlib import Path

import pytest

from capsim.scenario import load
from tests.cli.conftest import QUICK_START, SMALL, Capsim

TRACE = ("--set", "plan.duration=30s")


def test_check(capsim: Capsim) -> None:
    printed = capsim("check", QUICK_START)
    assert (printed.code, printed.err) == (0, "")
    assert "no fault found" in printed.out
    assert capsim("check", QUICK_START, "--json").json["faults"] == []


def test_fit(capsim: Capsim, tmp_path: Path) -> None:
    printed = capsim("fit", QUICK_START, "--json", "--out", tmp_path / "fit")
    assert printed.code == 0
    memory = printed.json["memory"]
    assert memory["bytes_per_token"] == 128 * 1024
    assert memory["usable_blocks"] == memory["num_gpu_blocks"] - 1
    assert (tmp_path / "fit" / "result.json").exists()
    assert "128KiB" in capsim("fit", QUICK_START).out


def test_a_stated_number_of_blocks_wins(capsim: Capsim) -> None:
    memory = capsim("fit", SMALL, "--json").json["memory"]
    assert memory["num_gpu_blocks"] == 4000


@pytest.mark.parametrize("options", [("--rate", "5/s"), ("--concurrency", "8"), ()])
def test_run(capsim: Capsim, options: tuple[str, ...]) -> None:
    printed = capsim("run", SMALL, *options, *TRACE, "--jobs", "1", "--json")
    assert printed.code == 0
    assert printed.json["summary"]["counts"]["completed"] > 0
    assert "saturated rate" in printed.err  # progress is not an answer


def test_run_the_trace_as_it_is(capsim: Capsim, tmp_path: Path) -> None:
    printed = capsim("run", QUICK_START, "--trace", "--jobs", "1", "--out", tmp_path / "run", "--json")
    assert printed.code == 0
    assert printed.json["load"]["kind"] == "recorded"
    assert printed.json["summary"]["counts"]["offered"] == 19_366
    with (tmp_path / "run" / "requests.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 19_366
    ends = [float(row["finish_s"]) + 0.0025 - float(row["arrival_s"]) for row in rows]
    assert [float(row["user_e2e_s"]) for row in rows] == pytest.approx(ends, abs=1e-4)  # 9 digits are written
    again = load(tmp_path / "run" / "scenario.json")
    assert again == load(QUICK_START)


def test_run_sizes_the_fleet(capsim: Capsim) -> None:
    printed = capsim("run", SMALL, "--replicas", "3", "--rate", "30/s", *TRACE, "--jobs", "1", "--json")
    assert printed.json["load"]["replicas"] == 3


def test_overload_is_said(capsim: Capsim) -> None:
    printed = capsim("run", SMALL, "--rate", "500/s", "--requests", "300", "--jobs", "1")
    assert printed.code == 0
    assert "overloaded" in printed.out.lower()


def test_seed_and_set_change_the_answer(capsim: Capsim) -> None:
    answers = {
        capsim("run", SMALL, *TRACE, "--jobs", "1", "--json", *options).out
        for options in ((), ("--seed", "8"), ("--set", "engine.max_num_seqs=8"))
    }
    assert len(answers) == 3


def test_plan(capsim: Capsim, tmp_path: Path) -> None:
    printed = capsim("plan", SMALL, "--jobs", "2", "--out", tmp_path / "plan")
    assert printed.code == 0
    lines = [line for line in printed.out.splitlines() if line.isupper()]
    assert lines == ["ANSWER", "BINDING CONSTRAINT", "HOW SURE", "EVIDENCE"]
    written = {path.name for path in (tmp_path / "plan").iterdir()}
    kept = {"scenario.json", "result.json", "requests.csv", "course.json", "command.txt", "experiments.jsonl"}
    assert written == kept | {"report.html", "knee.png"}
    again = capsim("plan", SMALL, "--jobs", "1", "--out", tmp_path / "plan", "--json")
    assert again.out == (tmp_path / "plan" / "result.json").read_text()
    assert "simulation" not in again.err  # everything was done already


def test_plan_writes_to_runs_by_default(capsim: Capsim, tmp_path: Path) -> None:
    assert (
        capsim(
            "plan", SMALL, "--jobs", "1", "--set", "plan.duration=20s", "--set", "plan.replications=3"
        ).code
        == 0
    )
    assert (tmp_path / "runs" / "small" / "result.json").exists()
