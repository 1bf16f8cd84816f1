"""A run in the formats of benchmarks: written, read back, compared with the log, and simulated again."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from capsim.benchmark.reader import read_benchmark
from capsim.benchmark.record import ERROR, BenchmarkRun
from capsim.fleet.log import RunLog
from capsim.measure.inter_token import inter_token_gaps
from capsim.measure.latency import failed, user_latencies
from capsim.plan.deployment import deploy
from capsim.plan.experiment import Experiment, measure, record
from capsim.plan.simulation import Simulation
from capsim.plan.validation import validate
from capsim.report.export import FORMATS, inference_perf
from capsim.report.export.simulated_run import SimulatedRun, simulated_run
from capsim.report.export.token_gaps import steps_missed, token_gaps
from capsim.scenario import load
from tests.measure.run_logs import leap, run_log, served, two_requests

SMALL = Path(__file__).parents[1] / "plan" / "small.yaml"
OPEN = Experiment("resample", replicas=1, rate=20.0, duration=20.0, failures=True)

LOADS = {
    "open": (OPEN, ()),
    "closed": (Experiment("closed", replicas=1, requests=200, concurrency=12), ()),
    "two replicas": (replace(OPEN, replicas=2, rate=50.0), ("fleet.replicas=2",)),
    "chunks beside decodes": (OPEN, ("engine.max_num_batched_tokens=128", "engine.async_scheduling=true")),
    "time outside": (OPEN, ("fleet.latencies={network: 3ms, gateway: 2ms, detokenization: 1ms}",)),
}
"""Loads under which nobody is preempted between tokens."""
PREEMPTING = ("engine.num_gpu_blocks=300",)
DYING = ("fleet.failures=[{replica: 0, at: 10s}]", "fleet.max_retries=0")

each_load = pytest.mark.parametrize(("experiment", "changes"), LOADS.values(), ids=LOADS)


def simulation(experiment: Experiment = OPEN, changes: tuple[str, ...] = ()) -> Simulation:
    deployment = deploy(load(SMALL, changes))
    log = record(deployment, experiment)
    return Simulation(deployment, experiment, log, measure(deployment, experiment, log), 1.0, "")


def exported(simulated: SimulatedRun, name: str, folder: Path) -> Path:
    path = folder / FORMATS[name].FILE
    FORMATS[name].write(simulated, path)
    return path


def read(simulated: SimulatedRun, name: str, folder: Path) -> BenchmarkRun:
    (run,) = read_benchmark(exported(simulated, name, folder))
    return run


def assert_requests_as_in(log: RunLog, run: BenchmarkRun) -> None:
    """Every digit of a time is written; only arrivals are counted from another origin."""
    user, lost = user_latencies(log), failed(log)
    assert run.arrival.tolist() == (log.requests.arrival - log.requests.arrival.min()).tolist()
    assert run.ttft[~lost].tolist() == user.ttft[~lost].tolist()
    assert run.e2e[~lost].tolist() == user.e2e[~lost].tolist()
    assert np.isnan(run.ttft[lost]).all()
    assert np.isnan(run.e2e[lost]).all()
    assert run.prompt.tolist() == log.requests.prompt.tolist()
    assert run.output.tolist() == np.where(lost, 0, log.requests.output).tolist()
    assert (run.status == ERROR).tolist() == lost.tolist()
    assert [bool(error) for error in run.errors] == lost.tolist()


@each_load
@pytest.mark.parametrize("name", ["vllm-bench", "csv"])
def test_requests_are_read_back(
    name: str, experiment: Experiment, changes: tuple[str, ...], tmp_path: Path
) -> None:
    simulated = simulation(experiment, changes)
    run = read(simulated_run(simulated), name, tmp_path)
    assert_requests_as_in(simulated.log, run)
    assert "arrivals" in run.capabilities


@each_load
def test_gaps_are_read_back(experiment: Experiment, changes: tuple[str, ...], tmp_path: Path) -> None:
    simulated = simulation(experiment, changes)
    run = read(simulated_run(simulated), "vllm-bench", tmp_path)
    assert run.gaps is not None
    assert run.gap_starts is not None
    assert np.diff(run.gap_starts).tolist() == (simulated.log.requests.output - 1).tolist()
    # Half a nanosecond is rounded away; the rest is a hundred times the noise of times of 20 s.
    pooled = inter_token_gaps(simulated.log.leaps, simulated.log.resumed_gaps)
    expected = np.sort(np.repeat(pooled.seconds, pooled.count))
    assert np.sort(run.gaps) == pytest.approx(expected, rel=0, abs=0.6e-9)
    decoding = np.diff(np.concatenate(([0.0], np.cumsum(run.gaps)))[run.gap_starts])
    # Each of up to 500 gaps is off by half a nanosecond at most.
    assert decoding == pytest.approx(run.e2e - run.ttft, rel=0, abs=500 * 0.5e-9)


@pytest.mark.parametrize(
    ("name", "metrics"),
    [
        ("vllm-bench", ("ttft", "tpot", "itl", "e2e")),
        ("inference-perf-br", ("ttft", "tpot", "itl", "e2e", "normalized_time_per_output_token")),
    ],
)
@pytest.mark.parametrize("changes", [(), PREEMPTING, DYING], ids=["calm", "preempting", "dying"])
def test_aggregates_are_read_back(
    name: str, metrics: tuple[str, ...], changes: tuple[str, ...], tmp_path: Path
) -> None:
    simulated = simulated_run(simulation(changes=changes))
    run, expected = read(simulated, name, tmp_path), simulated.run.aggregates
    rates = ("request_throughput", "output_throughput", "total_throughput")
    for metric in (*metrics, *rates):
        known = {statistic: expected[metric][statistic] for statistic in run.aggregates[metric]}
        # Seconds go through milliseconds and back in one of the formats: two roundings.
        assert run.aggregates[metric] == pytest.approx(known, rel=1e-15)
    assert run.aggregates["requests"]["ok"] == expected["requests"]["ok"]
    assert run.aggregates["requests"]["error"] == expected["requests"]["error"]
    assert run.duration == pytest.approx(
        simulated.run.duration, rel=0, abs=0.5e-9
    )  # of a text in nanoseconds


@each_load
@pytest.mark.parametrize("name", ["vllm-bench", "csv"])
def test_the_same_service_reproduces_its_export(
    name: str, experiment: Experiment, changes: tuple[str, ...], tmp_path: Path
) -> None:
    simulated = simulation(experiment, changes)
    path = exported(simulated_run(simulated), name, tmp_path)
    (check,) = validate(simulated.deployment, read_benchmark(path)).checks
    assert {"ttft", "tpot", "e2e"} <= check.comparisons.keys()
    assert ("itl" in check.comparisons) == (name == "vllm-bench")
    for metric, statistics in check.comparisons.items():
        for comparison in statistics.values():
            # Gaps are rounded to nanoseconds, and none is shorter than the 8 ms of a step.
            assert comparison.error == pytest.approx(0, abs=1e-7 if metric == "itl" else 1e-11)


def test_gaps_of_a_log_by_hand() -> None:
    """The first request decodes for 0.5 s beside the second's prefill, and for 0.75 s alone."""
    gaps = token_gaps(two_requests())
    assert gaps is not None
    assert gaps.seconds.tolist() == [0.5, 0.75]
    assert gaps.starts.tolist() == [0, 2, 2]


def test_steps_of_a_leap_are_told_apart_and_replicas_too() -> None:
    requests = [
        served(0.0, 1.0, 2.0, 4.0, output=4),
        served(0.0, 1.0, 1.5, 2.75, output=2, replica=1),
    ]
    leaps = [
        leap(1.0, 1.0, chunks=1, decodes=0),
        leap(2.0, 0.5, slope=0.25, steps=2),
        leap(3.25, 0.75),
        leap(1.0, 0.5, chunks=1, decodes=0, replica=1),
        leap(1.5, 1.25, replica=1),
    ]
    gaps = token_gaps(run_log(requests, leaps))
    assert gaps is not None
    assert gaps.seconds.tolist() == [0.5, 0.75, 0.75, 1.25]
    assert gaps.starts.tolist() == [0, 3, 4]


def test_a_gap_lasts_from_token_to_token_where_the_replica_idled_between() -> None:
    """Nothing else runs while a preempted sequence waits for its KV: the idle second is part of its gap."""
    requests = [served(0.0, 1.0, 2.0, 4.0, output=2, preemptions=1)]
    leaps = [leap(1.0, 1.0, chunks=1, decodes=0), leap(3.0, 1.0, chunks=1, decodes=0)]
    gaps = token_gaps(run_log(requests, leaps))
    assert gaps is not None
    assert gaps.seconds.tolist() == [2.0]


def test_a_step_without_a_request_makes_gaps_unknown() -> None:
    requests = [served(0.0, 1.0, 2.0, 4.0, output=2), served(0.0, 1.0, 2.0, 3.0, output=2)]
    leaps = [leap(1.0, 1.0, chunks=2, decodes=0), leap(2.0, 1.0), leap(3.0, 1.0, chunks=1, decodes=0)]
    log = run_log(requests, leaps)
    assert steps_missed(log).tolist() == [1, 0]
    assert token_gaps(log) is None


def test_a_run_with_preemptions_has_no_gaps_and_says_so(tmp_path: Path) -> None:
    simulated = simulation(changes=PREEMPTING)
    assert len(simulated.log.resumed_gaps)
    run = simulated_run(simulated)
    content = json.loads(exported(run, "vllm-bench", tmp_path).read_text(encoding="utf-8"))
    assert "itls" not in content
    assert "preempted between tokens" in content["note"]
    assert "preempted between tokens" in exported(run, "inference-perf-br", tmp_path).read_text(
        encoding="utf-8"
    )
    pooled = inter_token_gaps(simulated.log.leaps, simulated.log.resumed_gaps)
    assert content["mean_itl_ms"] == pytest.approx(1e3 * np.average(pooled.seconds, weights=pooled.count))


def test_failed_requests_are_marked(tmp_path: Path) -> None:
    simulated = simulation(changes=DYING)
    lost = int(failed(simulated.log).sum())
    assert 0 < lost < len(simulated.log.requests.output)
    run = simulated_run(simulated)
    for name in ("vllm-bench", "csv"):
        back = read(run, name, tmp_path)
        assert_requests_as_in(simulated.log, back)
        assert set(back.errors) == {"", "lost"}
    assert read(run, "inference-perf-br", tmp_path).aggregates["requests"]["error"] == lost


def test_a_run_in_which_nothing_is_completed(tmp_path: Path) -> None:
    simulated = simulation(changes=("fleet.failures=[{replica: 0, at: 1ms}]", "fleet.max_retries=0"))
    assert failed(simulated.log).all()
    run = simulated_run(simulated)
    for name in ("vllm-bench", "csv"):
        back = read(run, name, tmp_path)
        assert_requests_as_in(simulated.log, back)
        assert {"ttft", "tpot", "itl", "e2e"}.isdisjoint(back.aggregates)
    report = read(run, "inference-perf-br", tmp_path).aggregates
    assert {"ttft", "tpot", "itl", "e2e"}.isdisjoint(report)
    assert report["request_throughput"]["mean"] == 0


@pytest.mark.parametrize("name", ["vllm-bench", "csv", "inference-perf-br"])
def test_a_file_says_that_it_is_simulated(name: str, tmp_path: Path) -> None:
    simulated = simulated_run(simulation())
    text = exported(simulated, name, tmp_path).read_text(encoding="utf-8")
    assert simulated.simulated_by in text
    assert simulated.fingerprint in text


def test_the_marks_of_a_vllm_file(tmp_path: Path) -> None:
    simulated = simulated_run(simulation())
    file = exported(simulated, "vllm-bench", tmp_path)
    content = json.loads(file.read_text(encoding="utf-8"))
    [read] = read_benchmark(file)
    assert f"it was simulated by {simulated.simulated_by}, not measured" in read.remarks
    assert simulated.origin.items() <= content.items()
    assert (content["backend"], content["label"], content["request_rate"]) == ("capsim", "small", 20.0)


def test_the_marks_of_every_row_of_a_csv_file(tmp_path: Path) -> None:
    simulated = simulated_run(simulation())
    with exported(simulated, "csv", tmp_path).open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(simulated.run)
    assert {row["simulated_by"] for row in rows} == {simulated.simulated_by}
    assert {row["fingerprint"] for row in rows} == {simulated.fingerprint}


def test_the_marks_of_a_report(tmp_path: Path) -> None:
    simulated = simulated_run(simulation())
    path = exported(simulated, "inference-perf-br", tmp_path)
    report = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert report["scenario"]["load"]["standardized"]["tool"] == "capsim"
    assert "not measured" in report["run"]["description"]
    assert "simulated" in report["run"]["keywords"]
    (run,) = read_benchmark(path)
    assert any("report of capsim" in remark for remark in run.remarks)


@given(value=st.floats(min_value=0, max_value=1e9))
def test_a_number_of_a_report_is_one_to_readers_of_yaml_1_1(value: float) -> None:
    assert yaml.safe_load(inference_perf._scalar(value)) == value


def test_a_closed_loop_says_so(tmp_path: Path) -> None:
    simulated = simulated_run(simulation(*LOADS["closed"]))
    run = read(simulated, "vllm-bench", tmp_path)
    assert (run.request_rate, run.concurrency) == (None, 12)
    report = read(simulated, "inference-perf-br", tmp_path)
    assert (report.request_rate, report.concurrency) == (None, 12)


@pytest.mark.parametrize("name", ["vllm-bench", "csv", "inference-perf-br"])
def test_the_same_run_gives_the_same_bytes(name: str, tmp_path: Path) -> None:
    first, second = (exported(simulated_run(simulation()), name, tmp_path).read_bytes() for _ in range(2))
    assert first == second


def test_runs_of_one_scenario_have_reports_of_their_own(tmp_path: Path) -> None:
    def uid(experiment: Experiment) -> Any:
        path = exported(simulated_run(simulation(experiment)), "inference-perf-br", tmp_path)
        return yaml.safe_load(path.read_text(encoding="utf-8"))["run"]["uid"]

    assert uid(OPEN) != uid(replace(OPEN, rate=21.0))


@pytest.mark.parametrize("changes", [(), PREEMPTING, DYING], ids=["calm", "preempting", "dying"])
def test_parquet_holds_the_columns(changes: tuple[str, ...], tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    simulated = simulated_run(simulation(changes=changes))
    table = import_module("pyarrow.parquet").read_table(exported(simulated, "parquet", tmp_path))
    run = simulated.run
    assert table.num_rows == len(run)
    assert table.column("arrival").to_pylist() == run.arrival.tolist()
    assert table.column("ttft").to_pylist() == [
        None if np.isnan(value) else value for value in run.ttft.tolist()
    ]
    assert table.column("output").to_pylist() == run.output.tolist()
    assert {key.decode(): value.decode() for key, value in table.schema.metadata.items()}.items() >= (
        simulated.origin.items()
    )
    assert ("gaps" in table.column_names) == (run.gaps is not None)
    if run.gaps is not None and run.gap_starts is not None:
        expected = [run.gaps[start:end].tolist() for start, end in pairwise(run.gap_starts.tolist())]
        assert table.column("gaps").to_pylist() == expected
