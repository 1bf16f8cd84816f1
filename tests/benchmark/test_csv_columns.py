from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from capsim.benchmark.csv_columns import read_csv
from capsim.benchmark.reader import read_benchmark
from capsim.benchmark.record import ERROR, INCOMPLETE, OK
from tests.benchmark.result_files import FILES, faults_of

OWN = FILES / "csv" / "own_names.csv"
OTHER = FILES / "csv" / "other_names_ns.csv"
COLUMNS = {
    "arrival": "start_ns",
    "ttft": "first_token_ns",
    "e2e": "latency_ns",
    "prompt": "tokens_in",
    "output": "tokens_out",
    "error": "failure",
}


def saved(folder: Path, text: str) -> Path:
    path = folder / "requests.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_columns_with_our_names_need_no_map() -> None:
    (run,) = read_benchmark(OWN)
    assert (run.tool, run.label) == ("csv", "own_names")
    assert run.arrival.tolist() == [0.0, 0.25, 0.5]
    np.testing.assert_array_equal(run.ttft, [0.03, 0.04, math.nan])
    np.testing.assert_array_equal(run.e2e, [0.13, math.nan, math.nan])
    assert run.output.tolist() == [11, -1, -1]
    assert run.status.tolist() == [OK, INCOMPLETE, ERROR]
    assert run.capabilities == {"requests", "arrivals", "failures"}


def test_a_map_and_a_unit_read_any_columns() -> None:
    (run,) = read_benchmark(OTHER, COLUMNS, unit="ns")
    # Exact to the nanosecond, though the clock's start does not fit a float64.
    assert run.arrival.tolist() == [0.0, 0.250000001, 0.5]
    np.testing.assert_array_equal(run.ttft, [0.031, 0.044, math.nan])
    assert run.status.tolist() == [OK, OK, ERROR]
    assert run.errors == ("", "", "timed out")
    assert run.notes == ("other_names_ns.csv: dropped 1 of 4 requests: ttft is not a time (row 5)",)


def test_without_a_status_an_empty_end_is_incomplete(tmp_path: Path) -> None:
    run = read_csv(saved(tmp_path, "ttft,e2e\n1,2\n1,\n"))
    assert run.status.tolist() == [OK, INCOMPLETE]
    assert run.capabilities == {"requests"}
    assert np.isnan(run.arrival).all()


def test_arrivals_may_be_partly_unknown(tmp_path: Path) -> None:
    run = read_csv(saved(tmp_path, "arrival,e2e\n7,1\n,1\n5,1\n"))
    np.testing.assert_array_equal(run.arrival, [2.0, math.nan, 0.0])


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_units(tmp_path: Path, unit: str) -> None:
    size = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}[unit]
    run = read_csv(saved(tmp_path, "ttft\n3\n"), unit=unit)
    assert run.ttft[0] == pytest.approx(3 * size, rel=1e-12)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("1", "too few columns"),
        ("-1,1,ok", "ttft is not a time"),
        ("nan,1,ok", "ttft is not a time"),
        ("inf,1,ok", "ttft is not a time"),
        ("1e999999999,1,ok", "ttft is not a time"),
        ("1e99,1,ok", "ttft is not a time"),
        ("1,1.5,ok", "output is not a whole number of tokens"),
        ("1,-2,ok", "output is not a whole number of tokens"),
        ("1,1e15,ok", "output is not a whole number of tokens"),
        ("1,x,ok", "output is not a whole number of tokens"),
        ("1,1,fine", "status is not ok, error or incomplete"),
    ],
)
def test_a_bad_row_is_dropped_with_line_and_reason(tmp_path: Path, row: str, reason: str) -> None:
    run = read_csv(saved(tmp_path, f"ttft,output,status\n\n{row}\n2,1,OK\n"))
    assert [(each.number, each.reason) for each in run.dropped] == [(3, reason)]
    assert run.ttft.tolist() == [2.0]


def test_no_usable_row_is_refused_with_reasons(tmp_path: Path) -> None:
    faults = faults_of(saved(tmp_path, "ttft\nx\ny\n"))
    assert [fault.what for fault in faults] == ["no usable row among 2", *["ttft is not a time"] * 2]
    assert [fault.line for fault in faults] == [None, 2, 3]
    (fault,) = faults_of(saved(tmp_path, "ttft\n"))
    assert fault.what == "no usable row among 0"


def test_columns_that_are_missing_or_none_of_ours_are_named(tmp_path: Path) -> None:
    path = saved(tmp_path, "first_tokn,end\n1,2\n")
    faults = faults_of(path, lambda path: read_csv(path, {"ttft": "first_token", "e2el": "end"}))
    assert [(fault.key, fault.suggestion) for fault in faults] == [
        ("e2el", "e2e"),
        ("first_token", "first_tokn"),
    ]
    (fault,) = faults_of(path, lambda path: read_csv(path, {"prompt": "end"}))
    assert fault.what == "tells no latency; found columns first_tokn, end"
    (fault,) = faults_of(path)
    assert "columns of other names need a map" in fault.what
    (fault,) = faults_of(path, lambda path: read_csv(path, unit="h"))
    assert "unit 'h' is unknown" in fault.what


def test_damaged_csv_is_refused(tmp_path: Path) -> None:
    (fault,) = faults_of(saved(tmp_path, "ttft\n" + "1" * 200_000 + "\n"))
    assert fault.what.startswith("is damaged")
    assert fault.line == 2
    (fault,) = faults_of(saved(tmp_path, "\n \n"))
    assert fault.what == "is empty"
