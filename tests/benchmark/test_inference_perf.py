from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capsim.benchmark.reader import definition_of, read_folder
from capsim.benchmark.record import ERROR, OK
from tests.benchmark.damage import damaged, lines, read_or_refuse
from tests.benchmark.result_files import FILES, faults_of, only, written

FOLDER = FILES / "inference_perf"
REQUESTS = FOLDER / "per_request_lifecycle_metrics.json"
STAGE = FOLDER / "stage_0_lifecycle_metrics.json"
REPORT = FOLDER / "inference-perf.partial.stage_0.yaml"


def requests(number: int = 4) -> list[Any]:
    """The first requests of the real file, with few times each."""
    listed: list[Any] = json.loads(REQUESTS.read_text(encoding="utf-8"))[:number]
    for each in listed:
        response = each["info"]["response_metrics"]
        response |= {
            key: response[key][:5] for key in ("chunk_times", "output_token_times") if key in response
        }
        response |= {"output_tokens": 5, "server_usage": {"prompt_tokens": 7, "completion_tokens": 5}}
    return listed


def stage() -> dict[str, Any]:
    data: dict[str, Any] = json.loads(STAGE.read_text(encoding="utf-8"))
    return data


FAILED = {
    "start_time": 7437.5,
    "end_time": 7438.0,
    "request": "{}",
    "info": {"input_tokens": 12, "response_metrics": None},
    "error": {"error_type": "HTTP Error 503", "error_msg": "overloaded"},
}


def test_requests_are_columns_from_the_first_sending() -> None:
    run = only(REQUESTS)
    assert (run.tool, run.model, len(run)) == ("inference-perf", "tinyllama", 60)
    assert run.capabilities == {"requests", "arrivals", "gaps", "failures"}
    assert run.arrival.min() == 0.0
    assert (run.status == OK).all()
    assert run.prompt.sum() == 14773
    assert run.output.sum() == 2965
    assert run.gap_starts is not None
    np.testing.assert_array_equal(np.diff(run.gap_starts), run.output - 1)
    assert run.notes == ()


def test_its_definition_gives_the_figures_of_the_stage() -> None:
    run, printed = only(REQUESTS), only(STAGE)
    definition = definition_of(run.tool)
    for metric, statistics in definition.summary(definition.counted(run)).items():
        for statistic in ("mean", "p50", "p90", "p95", "p99"):
            # A request ends up to 1.7 ms after its last token, with which the tool's TPOT ends; the fewest
            # tokens are 25. Others are the same numbers.
            error = 1.7e-3 / 24 if metric == "tpot" else 1e-12
            expected = printed.aggregates[metric][statistic]
            assert statistics[statistic] == pytest.approx(expected, abs=error), (metric, statistic)
    assert run.duration == pytest.approx(printed.duration, abs=1e-12)
    for rate, value in definition.throughput(run).items():
        assert value == pytest.approx(printed.aggregates[rate]["mean"], rel=1e-12), rate


def test_a_clock_may_start_anywhere(tmp_path: Path) -> None:
    run, listed = only(REQUESTS), json.loads(REQUESTS.read_text(encoding="utf-8"))
    for each in listed:
        response = each["info"]["response_metrics"]
        response["output_token_times"] = [time + 1.8e9 for time in response["output_token_times"]]
        each |= {key: each[key] + 1.8e9 for key in ("start_time", "end_time")}
    shifted = only(written(tmp_path, listed))
    for name in ("arrival", "ttft", "e2e", "gaps"):
        # A float of unix seconds is good to 1.2e-7 s; each time here is the difference of two.
        np.testing.assert_allclose(getattr(shifted, name), getattr(run, name), atol=2.4e-7)


def test_figures_of_a_stage() -> None:
    run = only(STAGE)
    assert (run.label, run.request_rate, run.concurrency, len(run)) == ("stage 0", 3.0, None, 0)
    assert run.capabilities == {"failures"}
    assert run.aggregates["requests"] == {"ok": 60, "error": 0}
    assert run.aggregates["tokens"] == {"prompt": 14773, "output": 2965}
    assert run.aggregates["ttft"]["p50"] == 0.05255067650023193
    assert "median" not in run.aggregates["ttft"]


def test_the_benchmark_report_tells_the_same() -> None:
    run, figures = only(REPORT), only(STAGE)
    assert (run.label, run.duration) == ("inference-perf-stage-0-de414463", 24.027)
    for metric in ("ttft", "tpot", "itl", "e2e", "request_throughput", "output_throughput"):
        for statistic in run.aggregates[metric].keys() & figures.aggregates[metric].keys():
            assert run.aggregates[metric][statistic] == figures.aggregates[metric][statistic]
    assert run.aggregates["ttft"]["p99.9"] == 0.09247576366647903
    assert run.aggregates["requests"] == {"ok": 60, "error": 0, "incomplete": 0}


def test_a_folder_is_read_whole_and_says_what_it_skipped(tmp_path: Path) -> None:
    for path in (REQUESTS, STAGE, REPORT):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "config.yaml").write_text("api: {type: completion}\n", encoding="utf-8")
    runs, skipped = read_folder(tmp_path)
    assert [len(run) for run in runs] == [0, 60, 0]
    assert [each.name for each in skipped] == ["config.yaml"]


def test_failed_requests_have_their_error(tmp_path: Path) -> None:
    run = only(written(tmp_path, [*requests(2), FAILED]))
    assert run.status.tolist() == [OK, OK, ERROR]
    assert run.errors[2] == "HTTP Error 503: overloaded"
    assert np.isnan([run.ttft[2], run.e2e[2]]).all()
    assert (run.prompt[2], run.output[2]) == (12, -1)
    # The tool's window is from the first sending to the last end, also of those that failed.
    assert run.duration == 7438.0 - requests(2)[0]["start_time"]


def test_two_events_for_each_token_are_seen_through(tmp_path: Path) -> None:
    listed = requests()
    for each in listed:
        response = each["info"]["response_metrics"]
        response["output_token_times"] = sorted(response["output_token_times"] * 2)
    run, plain = only(written(tmp_path, listed)), only(written(tmp_path, requests(), name="plain.json"))
    assert run.gaps is not None
    np.testing.assert_array_equal(run.gaps, plain.gaps)
    np.testing.assert_array_equal(run.output, [5] * 4)
    assert "the client stamped 40 tokens where the server counted 20" in run.notes[0]
    assert plain.notes == ()


def test_chunk_times_stand_in_for_times_of_tokens(tmp_path: Path) -> None:
    listed = requests(1)
    listed[0]["info"]["response_metrics"]["output_token_times"] = []
    (other,) = requests(1)
    times = other["info"]["response_metrics"]["chunk_times"]
    run = only(written(tmp_path, listed))
    assert run.ttft[0] == times[0] - other["start_time"]
    np.testing.assert_array_equal(run.gaps, np.diff(times))


def test_a_response_that_is_not_streamed_has_no_first_token(tmp_path: Path) -> None:
    listed = requests(1)
    listed[0]["info"] = {"input_tokens": 8, "response_metrics": {"output_tokens": 9, "server_usage": None}}
    run = only(written(tmp_path, listed))
    assert math.isnan(run.ttft[0])
    assert run.e2e[0] > 0
    assert (run.prompt[0], run.output[0], run.gaps) == (8, 9, None)


def test_figures_beside_a_request_stand_in_for_what_is_not_kept(tmp_path: Path) -> None:
    (request,) = requests(1)
    del request["info"]
    del request["request"]
    request["computed_metrics"] = {"time_to_first_token": 0.25, "input_tokens": 8, "output_tokens": 9}
    run = only(written(tmp_path, [request]))
    assert (run.ttft[0], run.prompt[0], run.output[0], run.cached[0]) == (0.25, 8, 9, -1)
    assert (run.model, run.gaps) == ("", None)


def test_cached_tokens_are_those_of_the_server(tmp_path: Path) -> None:
    listed = requests(2)
    usage = listed[0]["info"]["response_metrics"]["server_usage"]
    usage["prompt_tokens_details"] = {"cached_tokens": 4}
    assert only(written(tmp_path, listed)).cached.tolist() == [4, -1]


def test_a_unit_of_the_report_is_read(tmp_path: Path) -> None:
    path = tmp_path / "report.yaml"
    text = REPORT.read_text(encoding="utf-8").replace("units: s\n", "units: ms\n")
    path.write_text(text.replace("PT24.027S", "PT1H2M3S"), encoding="utf-8")
    run = only(path)
    assert run.aggregates["ttft"]["mean"] == pytest.approx(0.05560347946672361e-3, rel=1e-12)
    assert run.duration == 3723.0


def test_a_report_of_another_tool_is_told(tmp_path: Path) -> None:
    load = {"tool": "guidellm", "stage": 3, "rate_qps": 5, "concurrency": 8}
    aggregate = {"requests": {"total": 9, "failures": 2, "incomplete": 1}}
    report = {
        "version": "0.2.1",
        "run": {},
        "scenario": {"load": {"standardized": load}},
        "results": {"request_performance": {"aggregate": aggregate}},
    }
    run = only(written(tmp_path, report))
    assert (run.label, run.request_rate, run.concurrency) == ("stage 3", 5.0, 8)
    assert run.aggregates == {"requests": {"ok": 6, "error": 2, "incomplete": 1}}
    assert "it is a report of guidellm" in run.notes[0]


@pytest.mark.parametrize(
    ("path", "value", "key", "what"),
    [
        ((1,), 5, "[1]", "is no object"),
        ((1, "start_time"), None, "[1].start_time", "is missing"),
        ((1, "end_time"), 1.0, "[1].end_time", "is 1, before start_time"),
        ((1, "end_time"), "soon", "[1].end_time", "is the text 'soon'"),
        ((1, "error"), "broken", "[1].error", "is the text 'broken'"),
        (
            (1, "info", "response_metrics", "output_token_times", 2),
            7000.0,
            "[1].info.response_metrics.output_token_times[2]",
            "is before the time in front of it",
        ),
        (
            (1, "info", "response_metrics", "output_token_times", 0),
            7.0,
            "[1].info.response_metrics.output_token_times",
            "has a time that is null or before start_time",
        ),
        (
            (1, "info", "response_metrics", "server_usage", "completion_tokens"),
            -1,
            "[1].info.response_metrics.server_usage.completion_tokens",
            "is -1",
        ),
    ],
)
def test_a_wrong_value_of_a_request_is_told_with_its_place(
    tmp_path: Path, path: tuple[str | int, ...], value: Any, key: str, what: str
) -> None:
    listed: Any = requests()
    inside = listed
    for step in path[:-1]:
        inside = inside[step]
    inside[path[-1]] = value
    (fault,) = faults_of(written(tmp_path, listed))
    assert (fault.key, fault.what) == (key, what)
    assert fault.line == 1


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"successes": None}, "successes"),
        ({"benchmark_time_seconds": -1}, "benchmark_time_seconds"),
        ({"load_summary": {"requested_rate": "3"}}, "load_summary.requested_rate"),
        (
            {"successes": {"latency": {"request_latency": {"p99": -3}}}},
            "successes.latency.request_latency.p99",
        ),
    ],
)
def test_a_wrong_figure_is_told(tmp_path: Path, change: dict[str, Any], key: str) -> None:
    (fault,) = faults_of(written(tmp_path, stage() | change))
    assert fault.key == key


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        (
            "units: s\n",
            "units: h\n",
            "results.request_performance.aggregate.latency.time_to_first_token.units",
        ),
        ("PT24.027S", "a day", "run.time.duration"),
        ("total: 60", "total: -1", "results.request_performance.aggregate.requests.total"),
        ("failures: 0", "failures: 61", "results.request_performance.aggregate.requests.total"),
        ("request_performance", "other", "results"),
    ],
)
def test_a_wrong_report_is_told(tmp_path: Path, old: str, new: str, key: str) -> None:
    path = tmp_path / "report.yaml"
    path.write_text(REPORT.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
    (fault,) = faults_of(path)
    assert fault.key == key


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_damaged_requests_are_read_or_refused(data: st.DataObject) -> None:
    read_or_refuse(lines(data.draw(damaged([[*requests(2), FAILED]]))), "per_request.json")


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_damaged_figures_are_read_or_refused(data: st.DataObject) -> None:
    read_or_refuse(lines(data.draw(damaged([stage()]))), "stage_0_lifecycle_metrics.json")
