from __future__ import annotations

import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from calibrate.microbenchmark.bench import NotPossible, OutOfMemory
from calibrate.microbenchmark.case import ATTENTION, CEILING, OPERATOR, Case
from calibrate.microbenchmark.machine import Condition
from calibrate.microbenchmark.plan import Plan
from calibrate.microbenchmark.raw_file import read_raw
from calibrate.microbenchmark.runner import ABOVE_CEILING, OUT_OF_MEMORY
from capsim.errors import BadInput, Infeasible
from tests.calibrate.microbenchmark.fake_bench import LIMITS, FakeBench, run_of
from tests.docs.page import ROOT


def full(case: Case) -> None:
    if case.kind == ATTENTION and case.shape.kv_tokens > 8000:
        raise OutOfMemory


def test_out_of_memory_is_a_row_and_the_next_shape_follows(tmp_path: Path) -> None:
    bench = FakeBench(fails=full)
    outcome = run_of(bench, tmp_path / "raw.jsonl", minutes=0.01).measure()
    failed = outcome.failed(OUT_OF_MEMORY)
    assert failed
    assert {row.case for row in failed}.isdisjoint(bench.measured)
    assert len(outcome.rows) == len(bench.plan.cases())


def test_what_a_device_lacks_is_a_row_that_says_so(tmp_path: Path) -> None:
    def fails(case: Case) -> None:
        if case.name == "outside torch":
            raise NotPossible("not known on this device")

    out = tmp_path / "raw.jsonl"
    run_of(FakeBench(fails=fails), out, minutes=0.01).measure()
    (row,) = [row for row in read_raw(out).rows if row.failed]
    assert row.failed == "not known on this device"


def test_weights_that_do_not_fit_are_no_defect(tmp_path: Path) -> None:
    class Small(FakeBench):
        def load(self, plan: Plan) -> None:
            raise OutOfMemory(f"tried to allocate {plan.limits.layers} GiB")

    with pytest.raises(Infeasible, match=r"tried to allocate 6 GiB"):
        run_of(Small(), tmp_path / "raw.jsonl").measure()


def test_an_error_that_is_no_measurement_stops_the_run_and_loses_nothing(tmp_path: Path) -> None:
    def fails(case: Case) -> None:
        if case.kind == ATTENTION:
            raise RuntimeError("a defect")

    out = tmp_path / "raw.jsonl"
    bench = FakeBench(fails=fails)
    with pytest.raises(RuntimeError, match="a defect"):
        run_of(bench, out, minutes=0.01).measure()
    assert [row.case for row in read_raw(out).rows] == bench.measured


def test_an_interruption_loses_nothing_and_the_same_command_continues(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(_: Case) -> None:
        if len(first.measured) == 20:
            raise KeyboardInterrupt

    out = tmp_path / "raw.jsonl"
    first, second = FakeBench(fails=fails), FakeBench()
    with pytest.raises(KeyboardInterrupt):
        run_of(first, out, minutes=0.01).measure()
    assert "20 of" in capsys.readouterr().err
    run_of(second, out, minutes=10).measure()
    assert (*first.measured, *second.measured) == second.plan.cases()


def test_a_process_killed_in_the_middle_loses_nothing_and_nothing_is_measured_twice(tmp_path: Path) -> None:
    out = tmp_path / "raw.jsonl"
    command = [sys.executable, "-m", "tests.calibrate.microbenchmark.fake_bench", str(out)]
    with subprocess.Popen([*command, "0.02"], cwd=ROOT, stderr=subprocess.DEVNULL) as killed:
        deadline = time.monotonic() + 300
        while out.read_bytes().count(b"\n") < 12 if out.exists() else True:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        killed.send_signal(signal.SIGKILL)
    before = read_raw(out)
    assert len(before.rows) >= 8
    # As if the kill had come in the middle of a write.
    with out.open("a", encoding="utf-8") as file:
        file.write('{"kind": "operator", "name": "qkv_pr')
    subprocess.run([*command, "0"], cwd=ROOT, check=True, stderr=subprocess.DEVNULL)
    after = read_raw(out)
    assert after.rows[: len(before.rows)] == before.rows
    cases = run_of(FakeBench(), out).plan.cases()
    assert sorted(map(repr, (row.case for row in after.rows))) == sorted(map(repr, cases))


def test_a_file_of_another_machine_model_or_range_is_not_continued(tmp_path: Path) -> None:
    out = tmp_path / "raw.jsonl"
    run_of(FakeBench(), out, minutes=0.01).measure()
    with pytest.raises(BadInput, match="machine name was a law, and is another"):
        run_of(FakeBench(name="another"), out)
    with pytest.raises(BadInput) as refused:
        run_of(FakeBench(), out, limits=replace(LIMITS, max_num_seqs=16))
    (fault,) = refused.value.faults
    assert str(fault) == f"{out}: plan max_num_seqs was 32, and is 16, expected the same, or another --out"


def test_a_finished_file_is_left_as_it_is(tmp_path: Path) -> None:
    out = tmp_path / "raw.jsonl"
    run_of(FakeBench(), out, minutes=0.01).measure()
    bench = FakeBench()
    outcome = run_of(bench, out).measure()
    assert not bench.measured
    assert len(outcome.kept) == len(read_raw(out).rows)


def test_a_case_faster_than_the_ceilings_is_tried_again_and_then_marked(tmp_path: Path) -> None:
    def scales(case: Case) -> float:
        return 0.2 if (case.kind, case.name, case.count) == (OPERATOR, "qkv_proj", 64) else 1.0

    bench = FakeBench(scales=scales)
    out = tmp_path / "raw.jsonl"
    outcome = run_of(bench, out, minutes=0.01).measure()
    (row,) = outcome.failed(ABOVE_CEILING)
    assert bench.measured.count(row.case) == 2
    assert row.share is not None
    assert row.share > 3


def test_a_cached_first_look_is_forgiven(tmp_path: Path) -> None:
    looks: list[Case] = []

    def scales(case: Case) -> float:
        looks.append(case)
        again = looks.count(case) > 1
        return 0.2 if case.name == "o_proj" and case.count == 32 and not again else 1.0

    outcome = run_of(FakeBench(scales=scales), tmp_path / "raw.jsonl", minutes=0.01).measure()
    assert not outcome.failed(ABOVE_CEILING)


def test_a_machine_that_slows_down_is_named(tmp_path: Path) -> None:
    def scales(case: Case) -> float:
        return 1.3 if case.kind == CEILING and case.round else 1.0

    outcome = run_of(FakeBench(scales=scales), tmp_path / "raw.jsonl", minutes=0.01).measure()
    assert any("30 % slower at the end" in warning for warning in outcome.warnings)


def test_a_clock_that_falls_is_named_with_what_to_do(tmp_path: Path) -> None:
    conditions = [Condition(), Condition(1980.0, 60.0), Condition(1200.0, 91.0)]
    bench = FakeBench(conditions=conditions)
    run = run_of(bench, tmp_path / "raw.jsonl", minutes=0.01)
    from calibrate.microbenchmark import runner

    original, runner.CONDITION_EVERY = runner.CONDITION_EVERY, 0.0
    try:
        outcome = run.measure()
    finally:
        runner.CONDITION_EVERY = original
    (warning,) = outcome.warnings
    assert "fell from 1980 to 1200 MHz (at most 91 C)" in warning
    assert "--lock-gpu-clocks" in warning


def test_a_slowdown_that_the_driver_names_is_passed_on(tmp_path: Path) -> None:
    bench = FakeBench(conditions=[Condition(slowdowns=("the hardware's temperature limit",))])
    outcome = run_of(bench, tmp_path / "raw.jsonl", minutes=0.01).measure()
    assert any("temperature limit: cool it" in warning for warning in outcome.warnings)
