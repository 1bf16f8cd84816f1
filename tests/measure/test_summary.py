from __future__ import annotations

import json
import math
from dataclasses import asdict, replace

import numpy as np
import pytest

from capsim.errors import BadInput
from capsim.fleet.log import Outcome
from capsim.measure.gates import Gate, check_gates
from capsim.measure.goodput import good, goodput
from capsim.measure.inter_token import inter_token_gaps
from capsim.measure.latency import user_latencies
from capsim.measure.objectives import LatencyObjective, Objectives, QualityObjective
from capsim.measure.summary import Summary, summarize
from tests.measure.run_logs import leap, request, run_log, served, two_requests

NO_OBJECTIVES = Objectives(())
GOOD_ENOUGH = QualityObjective("gsm8k", value=0.8, minimum=0.75)
NOT_GOOD_ENOUGH = QualityObjective("gsm8k", value=0.7, minimum=0.75)


def objectives(*latency: tuple[str, float, float], error_rate: float | None = None) -> Objectives:
    return Objectives(tuple(LatencyObjective(*objective) for objective in latency), error_rate)


def gate(summary: Summary, name: str) -> Gate:
    (found,) = [gate for gate in summary.gates if gate.name == name]
    return found


def failing() -> Summary:
    """Two requests served, one rejected and one lost, all arriving in 4 s."""
    log = two_requests(request(2.0), request(4.0, outcome=Outcome.LOST, attempts=1, output=2))
    latency = [
        ("ttft", 50, 2.25),
        ("ttft", 75, 10.0),
        ("tpot", 30, 0.625),
        ("itl", 20, 0.5),
        ("e2e", 50, 3.0),
    ]
    return summarize(log, objectives(*latency, error_rate=0.5))


def test_counts_and_error_rate() -> None:
    summary = failing()
    expected = {
        "offered": 4,
        "completed": 2,
        "rejected": 1,
        "lost": 1,
        "unfinished": 0,
        "cut": 0,
        "preemptions": 0,
    }
    assert asdict(summary.counts) == expected
    assert summary.error_rate == 0.5


def test_throughput_over_the_window_of_arrivals() -> None:
    throughput = failing().throughput
    assert (throughput.window_start, throughput.window_end) == (0.0, 4.0)
    assert throughput.offered == 1.0
    # Both completions, at 2.5 and 3.25 s, lie in the 4 s.
    assert throughput.requests == 0.5
    assert throughput.input_tokens == 30 / 4
    assert throughput.output_tokens == 4 / 4
    assert throughput.total_tokens == 34 / 4


def test_completions_after_the_last_arrival_are_outside_the_window() -> None:
    throughput = summarize(two_requests(request(3.0)), NO_OBJECTIVES).throughput
    assert throughput.requests == 1 / 3


def test_requests_that_arrive_at_once_have_no_offered_rate() -> None:
    log = run_log([served(0.0, 1.0, 2.0, 2.0, output=1), served(0.0, 1.0, 2.0, 4.0, output=3)], [])
    summary = summarize(log, NO_OBJECTIVES)
    assert math.isnan(summary.throughput.offered)
    assert (summary.throughput.window_end, summary.throughput.requests) == (4.0, 0.5)


def test_tables_keep_user_and_engine_apart() -> None:
    summary = failing()
    assert (summary.user.ttft.mean, summary.engine.ttft.mean) == (2.0, 0.875)
    assert (summary.user.e2e.mean, summary.engine.e2e.mean) == (2.625, 1.5)
    assert summary.user.ttft.count == 4
    assert (summary.user.ttft.p50, summary.user.ttft.p90) == (2.25, math.inf)
    # One request has no TPOT; two failed. Failed requests still owed 4 + 1 gaps.
    assert (summary.user.tpot.count, summary.user.tpot.mean) == (3, 0.625)
    assert (summary.user.itl.count, summary.user.itl.mean, summary.user.itl.p50) == (7, 0.625, math.inf)
    assert summary.itl_bound == 0.0


def test_parts_add_up_at_the_mean_and_at_p95() -> None:
    summary = failing()
    assert sum(summary.ttft_parts.values()) == summary.user.ttft.mean
    assert summary.ttft_parts["prefill"] == 0.75
    # Of the two completed requests the slower one is at p95.
    assert sum(summary.ttft_parts_at_p95.values()) == 2.25
    assert summary.ttft_parts_at_p95["prefill"] == 1.0


def test_gates_by_hand() -> None:
    summary = failing()
    assert gate(summary, "ttft p50") == Gate("ttft p50", "latency", 2.25, 2.25, 0.5, 0.5, passed=True)
    assert gate(summary, "ttft p75") == Gate("ttft p75", "latency", math.inf, 10.0, 0.5, 0.75, passed=False)
    # One of the three that have a TPOT or failed.
    assert gate(summary, "tpot p30") == Gate("tpot p30", "latency", 0.625, 0.625, 1 / 3, 0.3, passed=True)
    # Of 7 gaps one is within; 20 % of 7 needs 2.
    assert gate(summary, "itl p20") == Gate("itl p20", "latency", 0.75, 0.5, 1 / 7, 0.2, passed=False)
    assert gate(summary, "e2e p50") == Gate("e2e p50", "latency", 3.5, 3.0, 0.25, 0.5, passed=False)
    assert gate(summary, "error rate") == Gate("error rate", "errors", 0.5, 0.5, 0.5, 0.5, passed=True)
    assert not summary.passed


def test_goodput_by_hand() -> None:
    summary = failing()
    # TTFT is judged by its p75 gate (10 s), TPOT passes both, E2E (3 s) only the second: 1 of 4 arrivals in 4 s.
    assert summary.goodput.joint_attainment == 0.25
    assert summary.goodput.requests == 0.25
    assert summary.goodput.output_tokens == 0.25


def test_one_token_cannot_miss_a_time_per_output_token() -> None:
    user = user_latencies(two_requests(request(2.0)))
    assert good(objectives(("tpot", 99, 0.001)), user).tolist() == [False, True, False]


def test_the_tightest_of_equal_percentiles_counts() -> None:
    user = user_latencies(two_requests())
    assert good(objectives(("ttft", 95, 2.0), ("ttft", 95, 9.0)), user).tolist() == [False, True]


def test_goodput_of_an_overloaded_run_is_what_it_can_do() -> None:
    # One request per second is offered for 10 s, one every 2 s is served.
    served_late = [served(i, 2 * i + 1.0, 2 * i + 2.0, 2 * i + 2.0, output=1) for i in range(11)]
    summary = summarize(run_log(served_late, []), NO_OBJECTIVES)
    assert summary.throughput.offered == 1.1
    assert summary.goodput.requests == 11 / 20


def test_missed_quality_is_no_goodput() -> None:
    log = two_requests()
    fine = summarize(log, replace(NO_OBJECTIVES, quality=(GOOD_ENOUGH,)))
    poor = summarize(log, replace(NO_OBJECTIVES, quality=(GOOD_ENOUGH, NOT_GOOD_ENOUGH)))
    assert fine.goodput.requests == 2.0
    assert (poor.goodput.requests, poor.goodput.output_tokens) == (0.0, 0.0)
    assert [gate.passed for gate in poor.gates] == [True, False]
    assert fine.passed


def test_goodput_of_no_request_is_an_error() -> None:
    user = user_latencies(two_requests()).only(np.zeros(2, dtype=bool))
    with pytest.raises(BadInput, match="matched no request"):
        goodput(NO_OBJECTIVES, user, np.array([], dtype=np.int64), 1.0)
    with pytest.raises(BadInput, match="no request was measured"):
        check_gates(
            NO_OBJECTIVES, user, inter_token_gaps(two_requests().leaps, np.array([])), np.array([], bool)
        )
    with pytest.raises(BadInput, match="2 recorded, 2 cut"):
        summarize(two_requests(), NO_OBJECTIVES, cut=2)


def test_unknown_metric_is_refused() -> None:
    with pytest.raises(BadInput, match="'tpt', expected ttft, tpot, itl or e2e"):
        summarize(two_requests(), objectives(("tpt", 95, 1.0)))


def test_gates_without_samples_pass_only_where_nothing_failed() -> None:
    one_token = run_log([served(0.0, 1.0, 2.0, 2.0, output=1)], [leap(1.0, 1.0, chunks=1, decodes=0)])
    summary = summarize(one_token, objectives(("tpot", 95, 1e-3), ("itl", 95, 1e-3)))
    assert summary.passed
    assert [gate.attained for gate in summary.gates] == [1.0, 1.0]
    with_failure = run_log([served(0.0, 1.0, 2.0, 2.0, output=1), request(1.0)], [])
    failed = summarize(with_failure, objectives(("tpot", 95, 1e-3), ("itl", 95, 1e-3)))
    assert [gate.passed for gate in failed.gates] == [False, False]


def test_the_warm_up_is_left_out() -> None:
    summary = summarize(two_requests(request(2.0)), objectives(("ttft", 50, 1.75)), cut=1)
    assert (summary.counts.offered, summary.counts.cut) == (2, 1)
    assert (summary.throughput.window_start, summary.throughput.window_end) == (1.0, 2.0)
    assert summary.user.ttft.mean == 1.75
    assert summary.passed
    assert summary.occupancy.steps == 3  # all leaps start at or after 1 s
    late = summarize(run_log([served(0, 1, 2, 3), served(2.5, 3.5, 4, 5)], [leap(2.0, 1.0), leap(4.0, 1.0)]),
                     NO_OBJECTIVES, cut=1)  # fmt: skip
    assert late.occupancy.steps == 1


def test_summary_fits_json() -> None:
    record = json.loads(json.dumps(failing().as_dict(), allow_nan=False))
    assert record["user"]["ttft"]["p99"] is None
    assert record["user"]["ttft"]["p50"] == 2.25
    assert record["gates"][0]["passed"] is True
    assert record["passed"] is False


def test_a_run_in_which_everything_failed() -> None:
    summary = summarize(
        run_log([request(0.0), request(1.0)], []), objectives(("ttft", 50, 1.0), error_rate=0.1)
    )
    assert summary.goodput.requests == 0.0
    assert [gate.passed for gate in summary.gates] == [False, False]
    assert json.dumps(summary.as_dict(), allow_nan=False)
