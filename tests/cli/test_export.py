"""``capsim run --export``: the files, their names in print, and what is refused before it simulates."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.cli.conftest import SMALL, Capsim

SHORT = ("run", SMALL, "--rate", "5/s", "--requests", "60", "--jobs", "1")


def test_each_format_is_written_beside_the_result(capsim: Capsim, tmp_path: Path) -> None:
    out = tmp_path / "run"
    formats = (
        "--export",
        "vllm-bench",
        "--export",
        "inference-perf-br",
        "--export",
        "csv",
        "--export",
        "csv",
    )
    printed = capsim(*SHORT, "--out", out, *formats)
    files = [out / name for name in ("vllm-bench.json", "inference-perf-br.yaml", "benchmark.csv")]
    assert printed.code == 0
    assert [line for line in printed.out.splitlines() if "exported" in line] == [
        f"exported: {file}" for file in files
    ]
    kept = {"result.json", "scenario.json", "requests.csv", "course.json", "command.txt", "report.html"}
    assert kept | {file.name for file in files} == {file.name for file in out.iterdir()}


def test_an_export_is_validated_without_error(capsim: Capsim, tmp_path: Path) -> None:
    capsim(*SHORT, "--out", tmp_path / "run", "--export", "vllm-bench", "--export", "csv")
    exact = "ttft=0.001%,tpot=0.001%,e2e=0.001%"
    for file, budget in (("vllm-bench.json", f"{exact},itl=0.001%"), ("benchmark.csv", exact)):
        printed = capsim("validate", tmp_path / "run" / file, "--scenario", SMALL, "--budget", budget)
        assert printed.code == 0
        assert "INSIDE THE BUDGET" in printed.out


def test_json_on_stdout_stays_json(capsim: Capsim, tmp_path: Path) -> None:
    printed = capsim(*SHORT, "--out", tmp_path / "run", "--export", "csv", "--json")
    assert printed.json["schema"] == "capsim.run"
    assert f"exported: {tmp_path / 'run' / 'benchmark.csv'}" in printed.err


def test_without_export_nothing_more_is_written(capsim: Capsim, tmp_path: Path) -> None:
    printed = capsim(*SHORT, "--out", tmp_path / "run")
    assert "exported" not in printed.out
    assert not (tmp_path / "run" / "vllm-bench.json").exists()


def test_an_export_needs_a_folder(capsim: Capsim) -> None:
    printed = capsim(*SHORT, "--export", "csv")
    assert printed.code == 2
    assert "--out" in printed.err
    assert "saturated rate" not in printed.err


def test_parquet_without_pyarrow_names_the_extra(
    capsim: Capsim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.delitem(sys.modules, "pyarrow.parquet", raising=False)
    printed = capsim(*SHORT, "--out", tmp_path / "run", "--export", "parquet")
    assert printed.code == 2
    assert "aiconfigurator" in printed.err
    assert "saturated rate" not in printed.err  # refused before anything is simulated
    assert not (tmp_path / "run").exists()


def test_several_sequences_a_request_have_no_room(capsim: Capsim, tmp_path: Path) -> None:
    several = ("--set", "demand.sampling={n: 2}")
    printed = capsim(*SHORT, *several, "--out", tmp_path / "run", "--export", "vllm-bench")
    assert printed.code == 2
    assert "2 sequences" in printed.err
    assert capsim(*SHORT, *several, "--out", tmp_path / "run").code == 0
