from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import SMALL, Capsim

STORED = Path(__file__).parents[1] / "report"
SHORT = ("--set", "plan.duration=10s", "--set", "plan.replications=3", "--jobs", "1")


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    """A plan that was made before."""
    folder = tmp_path / "run"
    folder.mkdir()
    shutil.copy(STORED / "plan.json", folder / "result.json")
    return folder


def test_a_plan_is_explained_from_its_folder_alone(capsim: Capsim, run_folder: Path) -> None:
    printed = capsim("explain", run_folder)
    assert (printed.code, printed.err) == (0, "")
    assert "why 7 replicas" in printed.out
    why = capsim("explain", run_folder, "--json").json
    assert why["schema"] == "capsim.explanation"
    assert why["gates"][0]["name"] == "tpot p95"
    assert [path.name for path in run_folder.iterdir()] == ["result.json"]


def test_a_plan_made_now_is_explained(capsim: Capsim, tmp_path: Path) -> None:
    planned = capsim("plan", SMALL, *SHORT, "--out", tmp_path / "plan", "--json").json
    why = capsim("explain", tmp_path / "plan", "--json", "--out", tmp_path / "why").json
    assert why["answer"]["replicas"] == planned["answer"]["replicas"]
    assert why["fingerprint"] == planned["fingerprint"]
    assert {"throughput", why["gates"][0]["name"]} & set(planned["binding"]["gates"])
    assert json.loads((tmp_path / "why" / "explanation.json").read_text()) == why


def test_what_a_given_fleet_serves_is_explained(capsim: Capsim, tmp_path: Path) -> None:
    out = tmp_path / "plan"
    served = capsim("plan", SMALL, "--replicas", "2", *SHORT, "--out", out, "--json").json["served"]
    why = capsim("explain", out, "--json").json
    assert why["served"]["bracket"] == served["bracket"]
    lost = [load["reason"] for load in why["served"]["above"] if load["verdict"] != "pass"]
    assert lost
    assert all(gate in ", ".join(lost) for gate in served["gates"])
    assert "more demand" not in {change["name"] for change in why["changes"]}
    assert "WHICH DEMAND" in capsim("explain", out).out


def test_a_run_is_explained(capsim: Capsim, tmp_path: Path) -> None:
    capsim("run", SMALL, "--rate", "5/s", *SHORT[-2:], "--requests", "50", "--out", tmp_path / "run")
    printed = capsim("explain", tmp_path / "run")
    assert printed.code == 0
    assert "5 requests/s on 1 replica" in printed.out


def test_what_is_no_run_folder_is_bad_input(capsim: Capsim, tmp_path: Path, run_folder: Path) -> None:
    printed = capsim("explain", tmp_path)
    assert printed.code == 2
    assert "is no run folder" in printed.err
    result = json.loads((run_folder / "result.json").read_text())
    del result["sweep"]
    (run_folder / "result.json").write_text(json.dumps(result))
    printed = capsim("explain", run_folder)
    assert printed.code == 2
    assert "lacks what a capsim.plan holds: 'sweep'" in printed.err
