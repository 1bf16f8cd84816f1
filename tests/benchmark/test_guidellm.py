from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capsim.benchmark.reader import definition_of, read_benchmark
from capsim.benchmark.record import ERROR, INCOMPLETE, OK
from tests.benchmark.damage import damaged, lines, read_or_refuse
from tests.benchmark.result_files import FILES, faults_of, written

TWO_RATES = FILES / "guidellm" / "two_rates.json"
CUT_OFF = FILES / "guidellm" / "cut_off.json"


def report(path: Path = CUT_OFF) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return data


def small() -> dict[str, Any]:
    """A report of one request of each status that there is, so that a damage often hits what matters."""
    data = report()
    for key, requests in data["benchmarks"][0]["requests"].items():
        data["benchmarks"][0]["requests"][key] = requests and requests[:1]
    return data


def test_every_rate_is_a_run() -> None:
    first, second = read_benchmark(TWO_RATES)
    for run in (first, second):
        assert (run.tool, run.tool_version, run.model) == ("guidellm", "0.8.1", "tiny")
        assert run.capabilities == {"requests", "arrivals", "failures", "cached"}
        assert run.status.tolist() == [OK] * 15 + [ERROR]
        assert run.gaps is None
    assert [run.label for run in (first, second)] == ["poisson@8", "poisson@30"]
    assert [(run.request_rate, run.burstiness) for run in (first, second)] == [(8.0, 1.0), (30.0, 1.0)]


def test_columns_are_in_seconds_from_the_first_sending() -> None:
    run = read_benchmark(TWO_RATES)[0]
    listed = report(TWO_RATES)["benchmarks"][0]["requests"]["successful"]
    starts = [each["request_start_time"] for each in listed]
    assert run.arrival.min() == 0.0
    np.testing.assert_array_equal(run.arrival[:15], np.array(starts) - min(starts))
    np.testing.assert_array_equal(run.e2e[:15], [each["request_latency"] for each in listed])
    # Unix seconds hold the two points in time to 2.4e-7 s.
    first_tokens = [each["info"]["timings"]["first_token_iteration"] for each in listed]
    np.testing.assert_allclose(run.ttft[:15], np.array(first_tokens) - starts, atol=5e-7)
    assert run.prompt[0] == 48
    assert run.output[0] == 9
    assert run.cached[0] == 24


def test_a_failed_request_has_its_error_and_no_times() -> None:
    run = read_benchmark(TWO_RATES)[0]
    assert "500 Internal Server Error" in run.errors[15]
    assert np.isnan([run.ttft[15], run.e2e[15]]).all()
    assert (run.prompt[15], run.output[15], run.cached[15]) == (34, -1, -1)
    assert run.arrival[15] > 0


def test_cancelled_requests_are_incomplete_and_keep_their_first_token() -> None:
    (run,) = read_benchmark(CUT_OFF)
    assert (run.label, run.request_rate, run.concurrency) == ("concurrent@4", None, 4)
    assert run.status.tolist() == [OK] * 9 + [INCOMPLETE] * 4
    assert np.isnan(run.e2e[9:]).all()
    assert np.isnan(run.ttft[9:]).tolist() == [False, True, False, False]
    assert run.errors[9:] == ("Request was cancelled",) * 4
    assert run.aggregates["requests"] == {"ok": 9, "error": 0, "incomplete": 4}
    assert run.duration == pytest.approx(0.9, abs=1e-6)  # two unix times, each to 2.4e-7 s


@pytest.mark.parametrize("path", [TWO_RATES, CUT_OFF], ids=["two rates", "cut off"])
def test_its_definition_gives_the_figures_of_the_file(path: Path) -> None:
    for run in read_benchmark(path):
        definition = definition_of(run.tool)
        summary = definition.summary(definition.counted(run), (1, 25, 50, 90, 95, 99))
        for metric, statistics in summary.items():
            for statistic, value in statistics.items():
                # A request ends up to 0.95 ms after its last token, with which the tool's own ITL and TPOT
                # end; the fewest tokens are 5. Others are the same numbers.
                error = 0.95e-3 / 4 if metric in ("itl", "tpot") else 1e-9
                assert value == pytest.approx(run.aggregates[metric][statistic], abs=error), (
                    metric,
                    statistic,
                )


def test_yaml_is_read_as_json_is(tmp_path: Path) -> None:
    path = tmp_path / "benchmarks.yaml"
    path.write_text(CUT_OFF.read_text(encoding="utf-8"), encoding="utf-8")
    (run,), (other,) = read_benchmark(path), read_benchmark(CUT_OFF)
    np.testing.assert_array_equal(run.ttft, other.ttft)
    assert run.aggregates == other.aggregates


def test_warnings_and_sampled_requests_are_told(tmp_path: Path) -> None:
    data = report()
    requests = data["benchmarks"][0]["requests"]
    requests["successful"] = requests["successful"][:2]
    (run,) = read_benchmark(written(tmp_path, data))
    assert "mean generation delay" in run.notes[0]
    assert "it lists 6 requests and counts 13" in run.notes[1]


def test_what_is_missing_is_unknown(tmp_path: Path) -> None:
    data = report()
    benchmark = data["benchmarks"][0]
    benchmark["config"] = {}
    benchmark["metrics"] = {}
    benchmark["requests"] = {"successful": [{}], "incomplete": None}
    del benchmark["duration"]
    (run,) = read_benchmark(written(tmp_path, data))
    assert np.isnan([run.arrival[0], run.ttft[0], run.e2e[0], run.duration]).all()
    assert (run.prompt[0], run.output[0], run.cached[0], run.status[0]) == (-1, -1, -1, OK)
    assert (run.label, run.model, run.request_rate, run.aggregates) == ("", "", None, {})
    assert run.capabilities == {"requests", "failures"}


def test_summaries_of_no_request_are_left_out(tmp_path: Path) -> None:
    data = report()
    data["benchmarks"][0]["metrics"]["request_latency"]["successful"]["count"] = 0
    (run,) = read_benchmark(written(tmp_path, data))
    assert "e2e" not in run.aggregates
    assert "ttft" in run.aggregates


@pytest.mark.parametrize(
    ("path", "value", "key", "what"),
    [
        (("metadata", "version"), 1, "metadata.version", "is version 1"),
        (("metadata", "version"), None, "metadata.version", "has no version"),
        (("benchmarks",), [], "benchmarks", "is empty"),
        (("benchmarks", 0), 5, "benchmarks[0]", "is 5"),
        (("benchmarks", 0, "requests"), None, "benchmarks[0].requests", "has no requests"),
        (
            ("benchmarks", 0, "requests", "successful", 3, "request_latency"),
            -0.1,
            "benchmarks[0].requests.successful[3].request_latency",
            "is -0.1",
        ),
        (
            ("benchmarks", 0, "requests", "successful", 3, "output_tokens"),
            "many",
            "benchmarks[0].requests.successful[3].output_tokens",
            "is the text 'many'",
        ),
        (
            ("benchmarks", 0, "requests", "successful", 3, "output_tokens"),
            2.5,
            "benchmarks[0].requests.successful[3].output_tokens",
            "is 2.5",
        ),
        (
            ("benchmarks", 0, "config", "strategy", "streams"),
            0,
            "benchmarks[0].config.strategy.streams",
            "is 0",
        ),
    ],
)
def test_a_wrong_value_is_told_with_its_place(
    tmp_path: Path, path: tuple[str | int, ...], value: Any, key: str, what: str
) -> None:
    data: Any = copy.deepcopy(report())
    inside = data
    for step in path[:-1]:
        inside = inside[step]
    inside[path[-1]] = value
    (fault,) = faults_of(written(tmp_path, data))
    assert (fault.key, fault.what) == (key, what)
    assert fault.line == 1
    assert fault.column is not None


def test_a_report_of_an_older_layout_is_refused(tmp_path: Path) -> None:
    (fault,) = faults_of(written(tmp_path, {"args": {}, "benchmarks": [{}]}))
    assert fault.expected == "version 2"


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_a_damaged_report_is_read_or_refused(data: st.DataObject) -> None:
    read_or_refuse(lines(data.draw(damaged([small()]))), "benchmarks.json")
