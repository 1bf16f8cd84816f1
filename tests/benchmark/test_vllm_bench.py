from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from capsim.benchmark.reader import definition_of, read_benchmark, read_folder
from capsim.benchmark.record import ERROR, OK
from tests.benchmark.result_files import FILES, faults_of, only, written

DETAILED = FILES / "vllm" / "rate2.json"
PLAIN = FILES / "vllm" / "nodetail.json"
APPENDED = FILES / "vllm" / "append.json"


def result(**other: Any) -> dict[str, Any]:
    """Three requests, the second failed before its first token."""
    return {
        "label": None,
        "model_id": "tiny",
        "num_prompts": 3,
        "request_rate": 2.0,
        "burstiness": 1.0,
        "max_concurrency": None,
        "duration": 4.0,
        "completed": 2,
        "failed": 1,
        "request_throughput": 0.5,
        "input_lens": [10, 20, 30],
        "output_lens": [3, 0, 1],
        "ttfts": [0.5, 0.0, 0.25],
        "itls": [[0.25, 0.25], [], []],
        "latencies": [1.0, 0.0, 0.25],
        "start_times": [100.0, 100.5, 101.0],
        "errors": ["", "refused", ""],
    } | other


def without(*keys: str, **other: Any) -> dict[str, Any]:
    return {key: value for key, value in result(**other).items() if key not in keys}


def test_a_detailed_file_has_every_column() -> None:
    run = only(DETAILED)
    assert (run.tool, run.model, run.request_rate, run.burstiness) == (
        "vllm bench serve",
        "tinyllama",
        2.0,
        1.0,
    )
    assert run.concurrency is None
    assert run.sha256 == hashlib.sha256(DETAILED.read_bytes()).hexdigest()
    assert run.capabilities == {"requests", "arrivals", "gaps", "failures"}
    assert (len(run), int(run.prompt.sum()), int(run.output.sum())) == (80, 20955, 3803)
    assert run.status.tolist() == [OK] * 80
    assert run.arrival[0] == run.arrival.min() == 0.0
    assert run.arrival.max() < run.duration
    assert run.gaps is not None
    assert len(run.gaps) == 3803 - 80
    assert run.notes == ()


def test_its_definition_gives_the_figures_that_the_tool_printed() -> None:
    run = only(DETAILED)
    definition = definition_of(run.tool)
    for metric, statistics in definition.summary(definition.counted(run)).items():
        for statistic, value in statistics.items():
            # The same formulas on the same float64 values; the order of sums may differ.
            assert value == pytest.approx(run.aggregates[metric][statistic], rel=1e-9)
    rates = definition.throughput(run)
    for rate in ("request_throughput", "output_throughput", "total_throughput"):
        assert rates[rate] == pytest.approx(run.aggregates[rate]["mean"], rel=1e-9)
    assert run.aggregates["requests"] == {"ok": 80, "error": 0}
    assert run.aggregates["tokens"] == {"prompt": 20955, "output": 3803}


def test_a_file_without_details_has_latencies_alone() -> None:
    run = only(PLAIN)
    assert run.capabilities == {"requests", "failures"}
    assert len(run) == 60
    assert run.aggregates["e2e"]["mean"] == pytest.approx(run.e2e.mean(), rel=1e-9)
    assert np.isnan(run.ttft).all()
    assert (run.output == -1).all()
    assert run.gaps is None
    # From the file, in milliseconds.
    assert run.aggregates["ttft"]["p99"] == pytest.approx(0.164573699290131, rel=1e-12)


def test_appended_results_are_several_runs() -> None:
    runs = read_benchmark(APPENDED)
    assert [run.request_rate for run in runs] == [4.0, 6.0]
    assert [run.label for run in runs] == ["run 1", "run 2"]
    assert [len(run) for run in runs] == [30, 30]


def test_a_failed_request_has_no_times(tmp_path: Path) -> None:
    run = only(written(tmp_path, result()))
    assert run.status.tolist() == [OK, ERROR, OK]
    assert run.errors == ("", "refused", "")
    np.testing.assert_array_equal(run.arrival, [0.0, 0.5, 1.0])
    np.testing.assert_array_equal(run.ttft, [0.5, math.nan, 0.25])
    np.testing.assert_array_equal(run.e2e, [1.0, math.nan, 0.25])
    assert run.gap_starts is not None
    assert run.gap_starts.tolist() == [0, 2, 2, 2]
    assert run.notes == ()


def test_no_text_but_no_output_is_a_failure(tmp_path: Path) -> None:
    assert only(written(tmp_path, result(errors=["", "", ""]))).status.tolist() == [OK, ERROR, OK]
    plain = without("errors", "output_lens", "ttfts", "itls", "input_lens", "start_times")
    assert only(written(tmp_path, plain)).status.tolist() == [OK, ERROR, OK]


def test_a_request_that_failed_on_its_way_keeps_its_first_token(tmp_path: Path) -> None:
    run = only(written(tmp_path, result(ttfts=[0.5, 0.125, 0.25], output_lens=[3, 2, 1])))
    assert run.status[1] == ERROR
    assert run.ttft[1] == 0.125
    assert math.isnan(run.e2e[1])


def test_a_request_that_was_never_sent_has_no_arrival(tmp_path: Path) -> None:
    run = only(written(tmp_path, result(start_times=[100.0, 0.0, 101.0])))
    np.testing.assert_array_equal(run.arrival, [0.0, math.nan, 1.0])
    assert "arrivals" not in run.capabilities
    # On a clock that starts with the run, 0 is a time.
    run = only(written(tmp_path, result(start_times=[0.5, 0.0, 1.0])))
    assert run.arrival.tolist() == [0.5, 0.0, 1.0]


def test_older_files_add_up_their_gaps(tmp_path: Path) -> None:
    run = only(written(tmp_path, without("latencies", "start_times", "failed")))
    np.testing.assert_array_equal(run.e2e, [1.0, math.nan, 0.25])
    assert run.capabilities == {"requests", "gaps", "failures"}
    assert "has no latencies" in run.notes[0]


@pytest.mark.parametrize("rate", ["inf", math.inf, None])
def test_an_infinite_rate_with_a_limit_is_a_closed_loop(tmp_path: Path, rate: Any) -> None:
    run = only(written(tmp_path, result(request_rate=rate, max_concurrency=16)))
    assert (run.request_rate, run.concurrency) == (None, 16)


def test_a_ramp_has_no_one_rate(tmp_path: Path) -> None:
    ramp = {"ramp_up_strategy": "linear", "ramp_up_start_rps": 1, "ramp_up_end_rps": 9}
    run = only(written(tmp_path, result(request_rate="inf", **ramp)))
    assert run.request_rate is None
    assert run.notes == (
        "result.json: its rate rises from 1 to 9 requests per second (linear); there is no one rate",
    )


def test_metadata_of_the_user_is_no_figure_and_no_array(tmp_path: Path) -> None:
    user = {"p99_e2el_ms": "fast", "mean_ttft_ms": 400.0, "cached_tokens": "many", "num_prompts": "three"}
    run = only(written(tmp_path, result(label="A", tensor_parallel_size="2", **user)))
    assert run.label == "A"
    assert run.aggregates["ttft"] == {"mean": 0.4}
    assert "e2e" not in run.aggregates
    assert run.cached.tolist() == [-1, -1, -1]


def test_order_and_lack_of_optional_keys_do_not_matter(tmp_path: Path) -> None:
    few = without("label", "burstiness", "max_concurrency", "failed", "start_times", "errors", "request_rate")
    run = only(written(tmp_path, dict(reversed(few.items()))))
    assert run.status.tolist() == [OK, ERROR, OK]
    assert (run.request_rate, run.burstiness, run.concurrency) == (None, None, None)


def test_fractional_percentiles_and_other_metrics_keep_their_names(tmp_path: Path) -> None:
    run = only(written(tmp_path, result(**{"p99.9_ttft_ms": 2.0, "mean_client_queue_time_ms": 5.0})))
    assert run.aggregates["ttft"]["p99.9"] == pytest.approx(0.002, rel=1e-12)
    assert run.aggregates["client_queue_time"]["mean"] == pytest.approx(0.005, rel=1e-12)


def test_latencies_of_no_request_are_no_figures(tmp_path: Path) -> None:
    nothing = {"completed": 0, "mean_ttft_ms": 0.0, "errors": ["x"] * 3, "output_lens": [0] * 3}
    run = only(written(tmp_path, result(**nothing)))
    assert "ttft" not in run.aggregates
    assert run.aggregates["requests"]["ok"] == 0


def test_chunks_of_several_tokens_and_miscounts_are_told(tmp_path: Path) -> None:
    run = only(written(tmp_path, result(output_lens=[7, 0, 1], completed=3)))
    assert [note.split(": ", 1)[1] for note in run.notes] == [
        "in 1 of 2 answered requests the gaps are not one less than the tokens: chunks are not single tokens",
        "its arrays show 2 answered requests, its count of completed is 3",
    ]


def test_an_end_before_the_first_token_is_told(tmp_path: Path) -> None:
    run = only(written(tmp_path, result(latencies=[0.25, 0.0, 0.25])))
    assert run.notes == ("result.json: requests that end before their first token: 1",)


def test_arrays_of_unequal_length_are_all_named(tmp_path: Path) -> None:
    faults = faults_of(written(tmp_path, result(ttfts=[0.5], errors=[])))
    assert [(fault.key, fault.what) for fault in faults] == [
        ("ttfts", "has 1 items"),
        ("errors", "has 0 items"),
    ]


@pytest.mark.parametrize(
    ("change", "key", "what"),
    [
        ({"duration": None}, "duration", "is missing"),
        ({"completed": None}, "completed", "is missing"),
        ({"duration": "long"}, "duration", "is the text 'long'"),
        ({"duration": -1.0}, "duration", "is -1.0"),
        ({"completed": 1.5}, "completed", "is 1.5"),
        ({"completed": True}, "completed", "is true"),
        ({"request_rate": "fast"}, "request_rate", "is the text 'fast'"),
        ({"request_rate": 0}, "request_rate", "is 0"),
        ({"max_concurrency": 0}, "max_concurrency", "is 0"),
        ({"model_id": ["a"]}, "model_id", "is a list"),
        ({"ttfts": 5}, "ttfts", "is 5"),
        ({"ttfts": [0.5, "x", 0.25]}, "ttfts[1]", "is the text 'x'"),
        ({"ttfts": [0.5, 0.0, -0.25]}, "ttfts[2]", "is -0.25"),
        ({"ttfts": [0.5, 0.0, math.inf]}, "ttfts[2]", "is inf"),
        ({"ttfts": [0.5, 0.0, 10**400]}, "ttfts[2]", f"is {10**39}"),
        ({"itls": [[0.25, -0.25], [], []]}, "itls[0][1]", "is -0.25"),
        ({"itls": [[0.25, None], [], []]}, "itls[0][1]", "is null"),
        ({"itls": [[0.25], [], 0.5]}, "itls[2]", "is 0.5"),
        ({"itls": [[[]], [], []]}, "itls[0][0]", "is a list"),
        ({"output_lens": [3, 0, 1.5]}, "output_lens[2]", "is 1.5"),
        ({"output_lens": [3, 0, 10**12]}, "output_lens[2]", "is 1000000000000"),
        ({"errors": ["", {}, ""]}, "errors[1]", "is an object"),
        ({"mean_ttft_ms": -3}, "mean_ttft_ms", "is -3"),
        ({"mean_ttft_ms": {}}, "mean_ttft_ms", "is an object"),
    ],
)
def test_a_bad_value_is_named_with_its_place(
    tmp_path: Path, change: dict[str, Any], key: str, what: str
) -> None:
    path = tmp_path / "result.json"
    path.write_text(json.dumps(result(**change), indent=1), encoding="utf-8")
    (fault,) = faults_of(path)
    assert (fault.key, fault.what) == (key, what)
    assert fault.line is not None
    assert fault.column is not None
    pointed = path.read_text(encoding="utf-8").splitlines()[fault.line - 1][fault.column - 1 :]
    top, *indices = key.replace("]", "").split("[")
    value = result(**change)[top]
    for index in indices:
        value = value[int(index)]
    assert pointed.startswith(json.dumps(value)[:1])


def test_a_fault_in_an_appended_result_has_its_own_line(tmp_path: Path) -> None:
    (fault,) = faults_of(written(tmp_path, result(), result(duration=-1)))
    assert (fault.line, fault.key) == (2, "duration")
    (fault,) = faults_of(written(tmp_path, result(), [1]))
    assert (fault.line, fault.what) == (2, "is a list")


def test_a_folder_is_read_by_name_and_says_what_it_skips(tmp_path: Path) -> None:
    written(tmp_path, result(label="b"), name="b.json")
    written(tmp_path, result(label="a"), name="a.json")
    written(tmp_path, result(), name="a.pytorch.json")
    written(tmp_path, result(), name="run=1.failure.json")
    written(tmp_path, result(), name="warmup.json")
    written(tmp_path, [result()], name="summary.json")
    (tmp_path / "summary.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    (tmp_path / "log.txt").write_text("started\n", encoding="utf-8")
    (tmp_path / "inside").mkdir()
    runs, skipped = read_folder(tmp_path)
    assert [run.label for run in runs] == ["a", "b"]
    names = ["a.pytorch.json", "log.txt", "run=1.failure.json", "summary.csv", "summary.json", "warmup.json"]
    assert [each.name for each in skipped] == names
    notes = read_benchmark(tmp_path)[0].notes
    assert [note.split(": ")[2].split(",")[0] for note in notes] == names


def test_damaged_files_of_a_folder_are_all_named(tmp_path: Path) -> None:
    written(tmp_path, result(duration=-1), name="a.json")
    written(tmp_path, result(), name="b.json")
    (tmp_path / "c.json").write_text('{"duration": ', encoding="utf-8")
    faults = faults_of(tmp_path)
    assert [Path(fault.source).name for fault in faults] == ["a.json", "c.json"]


def test_a_folder_without_results_and_a_missing_one(tmp_path: Path) -> None:
    (fault,) = faults_of(tmp_path)
    assert fault.what == "holds no result of a benchmark among 0 files"
    assert "vllm bench serve" in fault.expected
    (fault,) = faults_of(tmp_path / "nowhere")
    assert "No such file" in fault.what
    (fault,) = faults_of(tmp_path / "nowhere", read_folder)
    assert "No such file" in fault.what
