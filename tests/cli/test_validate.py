"""``capsim validate``: files and scenario in, errors out, and an exit code that a pipeline can stop on."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from capsim.plan.deployment import Deployment, deploy
from capsim.scenario import load
from tests.cli.conftest import REPOSITORY, SMALL, Capsim
from tests.plan.benchmark_files import run_of, served, some_requests, write

SHIPPED = REPOSITORY / "configs" / "benchmarks"
SERVICE = ("--scenario", SMALL)


@pytest.fixture(scope="module")
def deployment() -> Deployment:
    return deploy(load(SMALL))


@pytest.fixture
def folder(deployment: Deployment, tmp_path: Path) -> Path:
    """Two runs of the scenario's own service."""
    path = tmp_path / "bench"
    path.mkdir()
    for rate in (2.0, 12.0):
        write(path / f"rate{rate:g}.json", run_of(served(deployment, some_requests(60, rate))))
    return path


def test_a_folder_is_validated(capsim: Capsim, folder: Path) -> None:
    printed = capsim("validate", folder, *SERVICE)
    assert printed.code == 0
    assert "2 of 2 runs count" in printed.out
    assert "no verdict" in printed.out
    assert "+0.0%" in printed.out
    assert "validate: 2 simulations" in printed.err


def test_files_are_given_one_by_one(capsim: Capsim, folder: Path) -> None:
    printed = capsim("validate", folder / "rate2.json", folder / "rate12.json", *SERVICE, "--json")
    assert [run["name"] for run in printed.json["runs"]] == ["rate2", "rate12"]


def test_answers_that_took_no_time_have_no_rate(capsim: Capsim, tmp_path: Path) -> None:
    path = tmp_path / "instant.csv"
    path.write_text("arrival,ttft,e2e,prompt,output\n0,0,0,10,5\n", encoding="utf-8")
    (run,) = capsim("validate", path, *SERVICE, "--json").json["runs"]
    assert run["requests"]["answered"] == 1
    assert run["load"]["measured_rate"] is None
    assert run["load"]["measured_concurrency"] is None


def test_the_folder_of_the_answer(capsim: Capsim, folder: Path, tmp_path: Path) -> None:
    printed = capsim("validate", folder, *SERVICE, "--json", "--out", tmp_path / "answer")
    kept = json.loads((tmp_path / "answer" / "validation.json").read_text(encoding="utf-8"))
    assert kept == printed.json
    assert (tmp_path / "answer" / "overlay.png").stat().st_size > 10_000


def test_inside_the_budget(capsim: Capsim, folder: Path) -> None:
    printed = capsim("validate", folder, *SERVICE, "--budget", "ttft=1%,tpot=1%,itl=1%,e2e=1%")
    assert printed.code == 0
    assert "\n  INSIDE THE BUDGET" in printed.out


def test_not_inside_the_budget(capsim: Capsim, folder: Path) -> None:
    slow = ("--set", "step_cost.base=10ms")
    printed = capsim("validate", folder, *SERVICE, *slow, "--budget", "ttft=90%,tpot=1%", "--json")
    assert printed.code == 3
    assert printed.json["inside_budget"] is False
    assert printed.err.splitlines()[-len(printed.json["misses"]) - 1] == "capsim: not inside the budget"
    assert all(miss.startswith("TPOT ") for miss in printed.json["misses"])


def test_the_fit_is_judged_on_the_rest(capsim: Capsim, folder: Path) -> None:
    fast = ("--set", "step_cost.base=6ms")
    printed = capsim(
        "validate", folder, *SERVICE, *fast, "--fit", "overhead", "--fit-on", "rate2.json", "--json"
    )
    result = printed.json
    assert result["fit"]["runs"] == ["rate2"]
    assert result["fit"]["host_overhead"] == pytest.approx(2e-3, rel=0.01)  # 8 ms were simulated
    assert result["validated"]["runs"] == ["rate12"]
    worst, without = (
        score["tpot"]["mean"]["worst"] for score in (result["score"], result["fit"]["score_without"])
    )
    assert abs(worst) < 0.01 < abs(without)


@pytest.mark.parametrize(
    "arguments", [("--fit", "overhead"), ("--fit-on", "rate2.json"), ("--fit", "everything")]
)
def test_a_fit_is_asked_for_in_full(capsim: Capsim, folder: Path, arguments: tuple[str, str]) -> None:
    printed = capsim("validate", folder, *SERVICE, *arguments)
    assert printed.code == 2
    assert printed.out == ""


def test_every_fault_of_every_input_is_told(capsim: Capsim, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("{", encoding="utf-8")
    scenario = ("--scenario", SMALL, "--set", "demand.target=-3/s")
    printed = capsim("validate", "bad.json", "nowhere.json", *scenario, "--budget", "ttft=ten")
    assert printed.code == 2
    assert printed.out == ""
    for place in ("bad.json:1:", "nowhere.json", "demand.target", "--budget"):
        assert place in printed.err


def test_runs_that_nothing_can_be_said_of(capsim: Capsim, deployment: Deployment, tmp_path: Path) -> None:
    details = ("input_lens", "output_lens", "ttfts", "itls", "latencies", "start_times", "errors")
    bare = run_of(served(deployment, some_requests(20, 2.0)), **dict.fromkeys(details))
    printed = capsim("validate", write(tmp_path / "bare.json", bare), *SERVICE, "--out", "answer")
    assert printed.code == 0
    assert "0 of 1 runs count; not checked: bare" in printed.out
    assert "aggregates alone" in printed.out
    assert (tmp_path / "answer" / "overlay.png").exists()


def test_a_real_engine_is_predicted_better_with_its_overhead(capsim: Capsim) -> None:
    """Signs, not sizes: steps alone leave out HTTP, tokenizer and streaming; with them other runs come nearer."""
    service = ("--scenario", SHIPPED / "tinyllama-cpu.yaml")
    runs = SHIPPED / "vllm-cpu"
    alone = capsim("validate", runs, *service, "--json").json
    fitted = capsim("validate", runs, *service, "--fit", "overhead", "--fit-on", "rate4.json", "--json").json
    assert alone["score"]["ttft"]["mean"]["worst"] < 0
    assert fitted["validated"]["runs"] == ["rate2", "rate7"]
    for metric in ("ttft", "tpot", "itl", "e2e"):
        without = fitted["fit"]["score_without"][metric]["mean"]["mean_size"]
        assert fitted["score"][metric]["mean"]["mean_size"] < without


IN_EVERY_RESULT = {
    "schema",
    "schema_version",
    "capsim_version",
    "scenario",
    "fingerprint",
    "seed",
    "comparable",
    "configuration",
}
BY_METRIC = ("budget", "score", "fit.score_without", "runs[].metrics", "runs[].curves")
"""What is described as a whole, as its keys are metrics and statistics."""


def paths(value: Any, path: str = "") -> Iterator[str]:
    if isinstance(value, dict) and path not in BY_METRIC:
        for key, part in value.items():
            yield from paths(part, f"{path}.{key}".lstrip("."))
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for part in value:
            yield from paths(part, f"{path}[]")
    else:
        yield path


def test_every_field_is_described_and_no_other(capsim: Capsim, folder: Path) -> None:
    printed = capsim(
        "validate",
        folder,
        *SERVICE,
        "--fit",
        "overhead",
        "--fit-on",
        "rate2",
        "--budget",
        "ttft=1%",
        "--json",
    )
    there = {path for path in paths(printed.json) if path.split(".")[0] not in IN_EVERY_RESULT}
    page = (REPOSITORY / "docs" / "reference" / "result.md").read_text(encoding="utf-8")
    section = page.split("\n## Validation\n")[1].split("\n## ")[0]
    named = [re.findall(r"`([^`]+)`", item.split(": ")[0]) for item in section.split("\n- ")[1:]]
    assert {name for names in named for name in names} == there


def test_a_fleet_that_rejects_everything_is_not_compared(capsim: Capsim, folder: Path) -> None:
    short = ("--set", "engine.max_model_len=60", "--set", "demand.synthetic.prompt_tokens.max=20")
    printed = capsim("validate", folder, *SERVICE, *short, "--json")
    assert printed.code == 0
    assert all(run["metrics"] == {} for run in printed.json["runs"])
    assert all("TTFT: not simulated" in run["unchecked"] for run in printed.json["runs"])


def test_requests_that_are_sent_at_once_overload(
    capsim: Capsim, deployment: Deployment, tmp_path: Path
) -> None:
    run = run_of(served(deployment, some_requests(40, 1e9)))
    run["start_times"] = [5.0] * 40
    printed = capsim("validate", write(tmp_path / "burst.json", run), *SERVICE, "--json")
    assert printed.json["runs"][0]["overloaded"].startswith("offered inf/s")
