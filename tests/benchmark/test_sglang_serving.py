from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from capsim.benchmark.reader import definition_of, read_benchmark
from capsim.benchmark.record import ERROR, OK
from tests.benchmark.result_files import FILES, faults_of, only, written

TWO_RUNS = FILES / "sglang" / "two_runs.jsonl"


def detailed(**other: Any) -> dict[str, Any]:
    first: dict[str, Any] = json.loads(TWO_RUNS.read_text(encoding="utf-8").splitlines()[0])
    return first | other


def test_a_detailed_run_has_all_but_arrivals() -> None:
    run = read_benchmark(TWO_RUNS)[0]
    assert (run.tool, run.label, run.model) == ("SGLang bench_serving", "tuned run 1", "tiny-llama")
    assert (run.request_rate, run.concurrency, run.duration) == (4.0, None, 1.5)
    assert run.capabilities == {"requests", "gaps", "failures", "cached"}
    assert np.isnan(run.arrival).all()
    assert run.status.tolist() == [OK, OK, OK, OK, ERROR, OK]
    assert run.errors[4] == "Connection reset"
    assert run.cached.tolist() == [0, 64, 0, 0, 0, 0]
    assert math.isnan(run.ttft[4])
    assert math.isnan(run.e2e[4])
    # One output token: the end is the first token.
    assert run.e2e[2] == run.ttft[2] == 0.028
    assert "end to end is the time to first token and all gaps" in run.notes[0]


def test_a_run_without_details_has_aggregates_alone() -> None:
    run = read_benchmark(TWO_RUNS)[1]
    assert (run.label, run.request_rate, run.concurrency) == ("run 2", None, 2)
    assert len(run) == 0
    assert run.capabilities == set()
    assert run.aggregates["requests"] == {"ok": 5}
    assert run.aggregates["itl"]["max"] == pytest.approx(0.014, rel=1e-12)


def test_its_definition_gives_the_figures_of_the_file() -> None:
    run = read_benchmark(TWO_RUNS)[0]
    definition = definition_of(run.tool)
    for metric, statistics in definition.summary(definition.counted(run)).items():
        for statistic, value in statistics.items():
            # Sums of the same numbers in another order.
            assert value == pytest.approx(run.aggregates[metric][statistic], rel=1e-9)
    for rate, value in definition.throughput(run).items():
        # The file's input tokens are those of the answered requests, as here.
        assert value == pytest.approx(run.aggregates[rate]["mean"], rel=1e-9)
    assert run.aggregates["tokens"] == {"prompt": 1050, "output": 34, "cached": 64}


@pytest.mark.parametrize("rate", ["inf", "trace", math.inf])
def test_a_rate_may_be_none(tmp_path: Path, rate: Any) -> None:
    assert only(written(tmp_path, detailed(request_rate=rate))).request_rate is None


@pytest.mark.parametrize("server", [None, "down", [1], {"model_path": 5}])
def test_the_servers_own_part_may_have_any_layout(tmp_path: Path, server: Any) -> None:
    assert only(written(tmp_path, detailed(server_info=server))).model == ""


def test_a_miscount_is_told(tmp_path: Path) -> None:
    notes = only(written(tmp_path, detailed(completed=6))).notes
    assert "its arrays show 5 answered requests, its count of completed is 6" in notes[-1]


@pytest.mark.parametrize(
    ("change", "key", "what"),
    [
        ({"duration": None}, "duration", "is missing"),
        ({"completed": None}, "completed", "is missing"),
        ({"ttfts": [0.1]}, "ttfts", "has 1 items"),
        ({"cached_tokens": [0, 0, 0, 0, 0, -1]}, "cached_tokens[5]", "is -1"),
        ({"cache_report": []}, "cache_report", "is a list"),
        ({"request_rate": "often"}, "request_rate", "is the text 'often'"),
    ],
)
def test_a_bad_value_is_named(tmp_path: Path, change: dict[str, Any], key: str, what: str) -> None:
    (fault,) = faults_of(written(tmp_path, detailed(), detailed(**change)))
    assert (fault.line, fault.key, fault.what) == (2, key, what)
