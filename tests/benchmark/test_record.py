from __future__ import annotations

import math

import numpy as np
import pytest

from capsim.benchmark.definitions import (
    Columns,
    Definition,
    itl_weighted,
    linear,
    nearest_rank,
    span_of_answers,
    tpot_after_first,
    tpot_with_first,
)
from capsim.benchmark.record import ERROR, INCOMPLETE, OK, BenchmarkRun
from capsim.documents.dropped_row import DroppedRow

COLUMNS = Columns(
    ttft=np.array([0.1, 0.2, 0.3]),
    e2e=np.array([0.5, 0.2, 0.9]),
    output=np.array([5, 1, 4]),
    gaps=np.array([0.1, 0.1, 0.1, 0.1, 0.2, 0.2, 0.2]),
)
"""Three answers: gaps of 0.1 s, of nothing, of 0.2 s."""


def run_of(status: list[int], **other: object) -> BenchmarkRun:
    n = len(status)
    columns: dict[str, object] = {
        "arrival": np.arange(n, dtype=np.float64),
        "ttft": np.full(n, 0.1),
        "e2e": np.full(n, 0.5),
        "prompt": np.full(n, 10),
        "output": np.full(n, 5),
        "cached": np.full(n, -1),
        "status": np.array(status),
        "errors": ("",) * n,
    }
    columns |= {"tool": "a tool", "source": "folder/a.json", "sha256": "0"} | other
    return BenchmarkRun(**columns)  # type: ignore[arg-type]


def test_capabilities_say_what_is_there() -> None:
    assert run_of([OK, OK]).capabilities == {"requests", "arrivals"}
    assert run_of([]).capabilities == set()
    assert run_of([OK], arrival=np.array([math.nan])).capabilities == {"requests"}
    assert run_of([OK, OK], arrival=np.array([0.0, math.nan])).capabilities == {"requests"}
    everything = run_of(
        [OK],
        cached=np.array([0]),
        gaps=np.array([0.1]),
        gap_starts=np.array([0, 1]),
        failures_visible=True,
    )
    assert everything.capabilities == {"requests", "arrivals", "gaps", "failures", "cached"}


def test_columns_of_unequal_length_are_a_mistake_of_the_reader() -> None:
    with pytest.raises(ValueError, match="differ in length"):
        run_of([OK], ttft=np.zeros(2))
    with pytest.raises(ValueError, match="together"):
        run_of([OK], gaps=np.zeros(2))
    with pytest.raises(ValueError, match="2 gap_starts for 2 requests"):
        run_of([OK, OK], gaps=np.zeros(2), gap_starts=np.array([0, 2]))


def test_notes_name_the_file_and_the_rows() -> None:
    dropped = tuple(DroppedRow(row, "ttft is not a time") for row in range(3, 10))
    assert run_of([OK], dropped=dropped, remarks=("it is short",)).notes == (
        "a.json: dropped 7 of 8 requests: ttft is not a time (rows 3, 4, 5, 6, 7, ...)",
        "a.json: it is short",
    )


def test_time_per_output_token_of_one_token_depends_on_the_tool() -> None:
    # (0.5 - 0.1) / 4 and (0.9 - 0.3) / 3; against 0.5 / 5, 0.2 / 1 and 0.9 / 4.
    np.testing.assert_allclose(tpot_after_first(COLUMNS), [0.1, math.nan, 0.2], rtol=1e-12)
    np.testing.assert_allclose(tpot_with_first(COLUMNS), [0.1, 0.2, 0.225], rtol=1e-12)


def test_inter_token_latency_of_means_is_weighted_by_gaps() -> None:
    # Uniform gaps: the pooled gaps and the means of requests, once for each gap, are the same values.
    assert COLUMNS.gaps is not None
    np.testing.assert_allclose(itl_weighted(COLUMNS), COLUMNS.gaps, rtol=1e-12)


def test_percentiles_differ_between_tools() -> None:
    values = np.array([4.0, 1.0, 3.0, 2.0])
    assert (linear(values, 50), nearest_rank(values, 50)) == (2.5, 2.0)
    assert (linear(values, 75), nearest_rank(values, 75)) == (3.25, 3.0)
    assert math.isnan(linear(np.zeros(0), 50))
    assert math.isnan(nearest_rank(np.zeros(0), 50))


def test_a_summary_leaves_out_what_the_tool_does() -> None:
    summary = Definition("a tool").summary(COLUMNS, (50,))
    assert summary["tpot"]["mean"] == pytest.approx(0.15, rel=1e-12)
    assert summary["itl"]["p50"] == 0.1
    assert "tpot" not in Definition("another", tpot=None).summary(COLUMNS)
    without_gaps = Columns(COLUMNS.ttft, COLUMNS.e2e, COLUMNS.output)
    assert set(Definition("a tool").summary(without_gaps)) == {"ttft", "tpot", "e2e"}


def test_only_counted_requests_enter() -> None:
    run = run_of(
        [OK, ERROR, INCOMPLETE, OK],
        gaps=np.array([0.1, 0.2, 0.3, 0.4]),
        gap_starts=np.array([0, 1, 2, 2, 4]),
        duration=8.0,
    )
    definition = Definition("a tool")
    counted = definition.counted(run)
    assert counted.gaps is not None
    assert counted.gaps.tolist() == [0.1, 0.3, 0.4]
    assert len(counted.ttft) == 2
    expected = {
        "request_throughput": 0.25,
        "input_throughput": 2.5,
        "output_throughput": 1.25,
        "total_throughput": 3.75,
    }
    assert definition.throughput(run) == expected
    # From 0 to the end at 3.5 of the request that was sent at 3.
    over_answers = Definition("another", window=span_of_answers).throughput(run)
    assert over_answers["request_throughput"] == pytest.approx(2 / 3.5, rel=1e-12)


def test_throughput_of_unknown_tokens_or_time_is_left_out() -> None:
    definition = Definition("a tool")
    assert definition.throughput(run_of([OK])) == {}
    unknown = run_of([OK], output=np.array([-1]), duration=2.0)
    assert definition.throughput(unknown) == {"request_throughput": 0.5, "input_throughput": 5.0}
    assert math.isnan(span_of_answers(run_of([ERROR])))
