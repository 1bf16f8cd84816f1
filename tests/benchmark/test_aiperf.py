from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capsim.benchmark.reader import definition_of, read_benchmark
from capsim.benchmark.record import ERROR, INCOMPLETE, OK
from tests.benchmark.damage import damaged, lines, read_or_refuse
from tests.benchmark.result_files import FILES, faults_of, only, written

ONE_RATE = FILES / "aiperf" / "one_rate.jsonl"
ONE_RATE_FIGURES = FILES / "aiperf" / "one_rate_aiperf.json"
TWO_PHASES = FILES / "aiperf" / "two_phases.jsonl"
TWO_PHASES_FIGURES = FILES / "aiperf" / "two_phases_aiperf.json"
CALM_FIGURES = FILES / "aiperf" / "phases" / "calm" / "profile_export_aiperf.json"


def records(path: Path = TWO_PHASES) -> list[Any]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_requests_are_columns_in_seconds() -> None:
    run = only(ONE_RATE)
    assert (run.tool, run.label) == ("aiperf", "profiling")
    assert run.capabilities == {"requests", "arrivals", "gaps", "failures", "cached"}
    assert math.isnan(run.duration)
    assert len(run) == 24
    measured = records(ONE_RATE)[3:]
    starts = [each["metadata"]["request_start_ns"] for each in measured]
    # Whole nanoseconds, subtracted before they become seconds.
    np.testing.assert_allclose(run.arrival, [(start - min(starts)) * 1e-9 for start in starts], atol=1e-15)
    assert run.ttft[1] == pytest.approx(0.043711385, rel=1e-12)
    assert run.e2e[1] == pytest.approx(0.06405674, rel=1e-12)
    assert (run.prompt[1], run.output[1], run.cached[1]) == (20, 4, 0)


def test_gaps_are_those_between_chunks_and_fill_the_time_after_the_first() -> None:
    run = only(ONE_RATE)
    assert run.gaps is not None
    assert run.gap_starts is not None
    np.testing.assert_array_equal(np.diff(run.gap_starts), np.where(run.ok, run.output - 1, 0))
    sums = np.add.reduceat(run.gaps, run.gap_starts[:-1][run.ok])
    # Sums of milliseconds that were rounded to whole nanoseconds.
    np.testing.assert_allclose(run.ttft[run.ok] + sums, run.e2e[run.ok], atol=1e-8)


def test_a_failed_request_keeps_its_arrival_and_its_error() -> None:
    run = only(ONE_RATE)
    assert np.flatnonzero(run.status == ERROR).tolist() == [0, 7]
    assert run.errors[0].startswith("Internal Server Error: ")
    assert run.arrival[0] > 0
    assert np.isnan([run.ttft[0], run.e2e[0]]).all()
    assert (run.prompt[0], run.output[0]) == (-1, -1)


def test_the_warm_up_is_dropped() -> None:
    notes = only(ONE_RATE).notes
    assert notes == ("one_rate.jsonl: dropped 3 of 27 requests: warm-up (rows 1, 2, 3)",)


def test_every_phase_is_a_run_and_cancelled_requests_are_incomplete() -> None:
    calm, busy = read_benchmark(TWO_PHASES)
    assert (calm.label, busy.label) == ("calm", "busy")
    assert calm.status.tolist() == [OK, OK, INCOMPLETE, ERROR, OK, OK, INCOMPLETE, INCOMPLETE]
    assert np.count_nonzero(busy.status == INCOMPLETE) == 3
    assert calm.arrival.min() == busy.arrival.min() == 0.0
    assert calm.errors[2] == "RequestCancellationError: Request cancelled 0.050s after being sent"


@pytest.mark.parametrize(
    ("requests", "figures"),
    [(ONE_RATE, ONE_RATE_FIGURES), (TWO_PHASES, CALM_FIGURES)],
    ids=["one rate", "a phase"],
)
def test_its_definition_gives_the_figures_of_the_file(requests: Path, figures: Path) -> None:
    run = read_benchmark(requests)[0]
    printed = only(figures).aggregates
    definition = definition_of(run.tool)
    summary = definition.summary(definition.counted(run), (1, 5, 10, 25, 50, 75, 90, 95, 99))
    assert summary.keys() == {"ttft", "itl", "e2e"}
    for metric, statistics in summary.items():
        for statistic, value in statistics.items():
            # The requests' milliseconds are rounded to whole nanoseconds.
            assert value == pytest.approx(printed[metric][statistic], abs=1e-9), (metric, statistic)
    # The wall clock tells when requests were sent, another how long they took; the two differ by less than
    # 0.1 ms.
    assert definition.window(run) == pytest.approx(only(figures).duration, abs=1e-4)


def test_figures_of_one_rate() -> None:
    run = only(ONE_RATE_FIGURES)
    assert (run.tool_version, run.model, run.label) == ("0.13.0", "tiny", "profiling")
    assert (run.request_rate, run.burstiness, run.concurrency) == (20.0, 1.0, None)
    assert run.duration == 1.054755584
    assert len(run) == 0
    assert run.aggregates["requests"] == {"ok": 22, "error": 2}
    assert run.aggregates["tokens"] == {"prompt": 440, "output": 174}
    assert run.aggregates["ttft"]["p99"] == pytest.approx(0.08239293808999999, rel=1e-12)
    assert run.aggregates["inter_chunk_latency"]["mean"] == pytest.approx(0.006014903125, rel=1e-12)
    # Failures are an infinite wait, so the tool states no mean and no p99.
    assert run.aggregates["adj_time_to_first_token"].keys() == {
        "min",
        *(f"p{q}" for q in (1, 5, 10, 25, 50, 75, 90)),
    }


def test_figures_in_the_folder_of_a_phase_are_of_that_phase() -> None:
    run = only(CALM_FIGURES)
    assert (run.label, run.request_rate, run.burstiness) == ("calm", 10.0, 1.0)
    assert run.aggregates["requests"] == {"ok": 4, "error": 4}


def test_figures_of_several_phases_have_no_rate() -> None:
    run = only(TWO_PHASES_FIGURES)
    assert (run.label, run.request_rate, run.concurrency) == ("", None, None)
    assert "it is of the phases calm, busy together" in run.notes[0]


def test_infinite_statistics_are_left_out(tmp_path: Path) -> None:
    data = json.loads(ONE_RATE_FIGURES.read_text(encoding="utf-8"))
    data["adj_time_to_first_token"] |= {"avg": math.inf, "p99": math.inf, "p95": None}
    run = only(written(tmp_path, data))
    assert "mean" not in run.aggregates["adj_time_to_first_token"]
    assert "p99" not in run.aggregates["adj_time_to_first_token"]


@pytest.mark.parametrize(
    ("unit", "seconds"), [("ns", 40e-9), ("us", 40e-6), ("ms", 0.04), ("sec", 40.0), ("s", 40.0)]
)
def test_units_are_those_beside_the_value(tmp_path: Path, unit: str, seconds: float) -> None:
    record = records()[2]
    record["metrics"]["time_to_first_token"] = {"value": 40, "unit": unit}
    assert only(written(tmp_path, record)).ttft[0] == pytest.approx(seconds, rel=1e-12)


def test_what_is_missing_is_unknown(tmp_path: Path) -> None:
    record = records()[2]
    record["metrics"] = {"usage_prompt_tokens": {"value": 7, "unit": "tokens"}}
    del record["metadata"]["phase_name"]
    run = only(written(tmp_path, record))
    assert (run.label, run.prompt[0], run.output[0], run.cached[0]) == ("", 7, -1, -1)
    assert np.isnan([run.ttft[0], run.e2e[0]]).all()
    assert run.gaps is None
    assert run.capabilities == {"requests", "arrivals", "failures"}


def test_a_file_of_the_warm_up_alone_is_refused(tmp_path: Path) -> None:
    (fault,) = faults_of(written(tmp_path, *records()[:2]))
    assert "to leave out" in fault.what


@pytest.mark.parametrize(
    ("path", "value", "key", "what"),
    [
        (("metadata", "request_start_ns"), None, "metadata.request_start_ns", "is missing"),
        (("metadata", "request_start_ns"), -5, "metadata.request_start_ns", "is -5"),
        (("metadata",), 5, "metadata", "is 5"),
        (("metrics",), None, "metrics", "is missing"),
        (("metrics", "time_to_first_token", "value"), -1, "metrics.time_to_first_token.value", "is -1"),
        (("metrics", "time_to_first_token", "unit"), "h", "metrics.time_to_first_token.unit", "is 'h'"),
        (
            ("metrics", "output_sequence_length", "value"),
            "x",
            "metrics.output_sequence_length.value",
            "is the text 'x'",
        ),
        (("metrics", "inter_chunk_latency", "value", 1), -1, "metrics.inter_chunk_latency.value[1]", "is -1"),
        (
            ("metrics", "inter_chunk_latency", "value", 1),
            None,
            "metrics.inter_chunk_latency.value",
            "has a gap that is null",
        ),
        (("error",), "broken", "error", "is the text 'broken'"),
    ],
)
def test_a_wrong_value_is_told_with_its_line(
    tmp_path: Path, path: tuple[str | int, ...], value: Any, key: str, what: str
) -> None:
    values = records()
    inside = values[4 - 1]
    for step in path[:-1]:
        inside = inside[step]
    inside[path[-1]] = value
    (fault,) = faults_of(written(tmp_path, *values, name="profile_export.jsonl"))
    assert (fault.key, fault.what, fault.line) == (key, what, 4)


def test_a_line_cut_short_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "profile_export.jsonl"
    content = TWO_PHASES.read_text(encoding="utf-8")
    path.write_text(content[: len(content) - 40], encoding="utf-8")
    (fault,) = faults_of(path)
    assert fault.line == 19


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_damaged_requests_are_read_or_refused(data: st.DataObject) -> None:
    read_or_refuse(lines(data.draw(damaged(records()[1:5]))), "profile_export.jsonl")


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_damaged_figures_are_read_or_refused(data: st.DataObject) -> None:
    figures = json.loads(ONE_RATE_FIGURES.read_text(encoding="utf-8"))
    read_or_refuse(lines(data.draw(damaged([figures]))), "profile_export_aiperf.json")
