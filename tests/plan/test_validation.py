"""Simulated runs, written as a benchmark's files, are predicted again; what is wrong is found and measured."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from capsim.benchmark.reader import read_benchmark
from capsim.cost.scaled import ScaledCost
from capsim.errors import BadInput
from capsim.measure.inter_token import Gaps
from capsim.plan.deployment import Deployment, deploy
from capsim.plan.error_budget import parse_budget
from capsim.plan.overhead import Overhead, with_overhead
from capsim.plan.prediction import listed
from capsim.plan.service import service_fingerprint
from capsim.plan.validation import Check, Validation, validate
from capsim.plan.validation_result import validation_result
from capsim.scenario import load
from tests.plan.benchmark_files import run_of, served, some_requests, write
from tests.plan.conftest import SMALL

ROUNDING = 1e-8
"""Relative: the client's clock shows thousands of seconds, of which float64 keeps 1e-12 s, and gaps are 8 ms."""
DETAILS = ("input_lens", "output_lens", "ttfts", "itls", "latencies", "start_times", "errors")


def errors(check: Check) -> dict[str, float | None]:
    return {
        f"{metric} {statistic}": figure.error
        for metric, figures in check.comparisons.items()
        for statistic, figure in figures.items()
    }


def of_files(deployment: Deployment, *files: Path, **options: Any) -> Validation:
    return validate(deployment, [run for file in files for run in read_benchmark(file)], **options)


def at_rate(
    deployment: Deployment, path: Path, rate: float, count: int = 200, seed: int = 1, **changes: Any
) -> Path:
    return write(path, run_of(served(deployment, some_requests(count, rate, seed)), **changes))


def test_a_simulated_run_is_predicted_exactly(deployment: Deployment, tmp_path: Path) -> None:
    """Every metric at every statistic, queues and batches included: 25 requests/s fill half of the replica."""
    [check] = of_files(deployment, at_rate(deployment, tmp_path / "a.json", 25.0)).checks
    found = errors(check)
    assert check.load is not None
    assert check.load.kind == "replayed"
    assert {name.split()[0] for name in found} == {
        "ttft",
        "tpot",
        "itl",
        "e2e",
        "request_throughput",
        "output_throughput",
    }
    assert all(error is not None and abs(error) < ROUNDING for error in found.values()), found
    assert check.unchecked == ()


def test_latencies_are_those_of_the_client(deployment: Deployment, tmp_path: Path) -> None:
    """What lies between client and engine is in the file, so leaving it out of the scenario is an error in TTFT."""
    far = with_overhead(deployment, Overhead(gateway=0.05))
    file = at_rate(far, tmp_path / "a.json", 10.0)
    assert max(abs(error or 0) for error in errors(of_files(far, file).checks[0]).values()) < ROUNDING
    near = of_files(deployment, file).checks[0].comparisons["ttft"]["mean"]
    assert near.measured - near.simulated[0] == pytest.approx(0.05, rel=1e-9)  # rounding of means


def test_a_step_cost_10_percent_too_slow_shows_in_tpot(deployment: Deployment, tmp_path: Path) -> None:
    """Alone on a replica a token takes exactly 10 % longer; company, which stays longer too, adds a little."""
    slow = replace(deployment, cost=ScaledCost(deployment.cost, 1.1))
    alone = at_rate(deployment, tmp_path / "alone.json", 0.01, count=20)
    shared = at_rate(deployment, tmp_path / "shared.json", 10.0)
    first, second = of_files(slow, alone, shared).checks
    assert first.comparisons["tpot"]["mean"].error == pytest.approx(0.1, rel=1e-6)  # the clock's rounding
    assert 0.1 < (second.comparisons["tpot"]["mean"].error or 0) < 0.13


def test_a_closed_loop_is_simulated_where_arrivals_are_unknown(
    deployment: Deployment, tmp_path: Path
) -> None:
    log = served(deployment, some_requests(150, 1.0), concurrency=8)
    file = write(tmp_path / "a.json", run_of(log, max_concurrency=8, start_times=None))
    [check] = of_files(deployment, file).checks
    assert check.load is not None
    assert check.load.kind == "closed"
    assert all(error is not None and abs(error) < ROUNDING for error in errors(check).values())
    assert check.overloaded == ""


def test_unknown_arrivals_are_drawn_at_the_rate(deployment: Deployment, tmp_path: Path) -> None:
    """Five draws of one process and one measurement of it: 400 requests spread their mean TPOT by a few percent."""
    file = at_rate(deployment, tmp_path / "a.json", 20.0, count=400, start_times=None, request_rate=20.0)
    [check] = of_files(deployment, file).checks
    tpot = check.comparisons["tpot"]["mean"]
    assert check.load is not None
    assert check.load.kind == "drawn"
    assert len(set(tpot.simulated)) == 5
    assert min(tpot.errors) <= (tpot.error or 0) <= max(tpot.errors)
    assert abs(tpot.error or 1) < 0.1
    [again] = of_files(deployment, file).checks
    assert errors(again) == errors(check)


def test_burstiness_is_drawn_too(deployment: Deployment, tmp_path: Path) -> None:
    file = at_rate(deployment, tmp_path / "a.json", 20.0, start_times=None, request_rate=20.0, burstiness=0.2)
    [check] = of_files(deployment, file).checks
    gaps = np.diff(check.predictions[0].log.requests.arrival)
    assert gaps.std() / gaps.mean() > 1.5  # 2.2 in the limit; a Poisson process has 1


TRUE_OVERHEAD = Overhead(host=2e-3, gateway=7e-3)


def test_the_fit_finds_a_known_overhead(deployment: Deployment, tmp_path: Path) -> None:
    """What is found on one run leaves next to nothing on another.

    A step that is off by parts of a microsecond has some arrivals just miss it, each of which then waits a step of
    10 ms more: a few of 200 requests are a percent or two of TTFT, and of nothing else.
    """
    truth = with_overhead(deployment, TRUE_OVERHEAD)
    files = (
        at_rate(truth, tmp_path / "fitted.json", 12.0),
        at_rate(truth, tmp_path / "other.json", 20.0, seed=2),
    )
    before = of_files(deployment, files[1]).checks[0]
    validation = of_files(deployment, *files, fit_on="fitted")
    fitted, other = validation.checks
    assert validation.fit is not None
    assert validation.fit.overhead.host == pytest.approx(TRUE_OVERHEAD.host, rel=0.01)
    assert validation.fit.overhead.gateway == pytest.approx(TRUE_OVERHEAD.gateway, rel=0.1)
    assert (fitted.counts, other.counts) == (False, True)
    for metric, left in (("ttft", 0.03), ("tpot", 0.003), ("e2e", 0.003)):
        assert abs(other.comparisons[metric]["mean"].error or 0) < left
        assert abs(before.comparisons[metric]["mean"].error or 0) > 0.1
    [without] = validation.without_fit
    assert errors(without) == errors(before)


def test_the_fit_on_a_closed_loop_finds_the_step_alone(deployment: Deployment, tmp_path: Path) -> None:
    """Clients send when a step has ended; what the gateway takes hides behind the next one, and the note says so."""
    log = served(with_overhead(deployment, TRUE_OVERHEAD), some_requests(200, 12.0), 8)
    closed = write(tmp_path / "closed.json", run_of(log, max_concurrency=8, start_times=None))
    other = at_rate(deployment, tmp_path / "other.json", 20.0)
    validation = of_files(deployment, closed, other, fit_on="closed")
    assert validation.fit is not None
    assert validation.fit.overhead.host == pytest.approx(TRUE_OVERHEAD.host, rel=0.01)
    assert validation.fit.residual < 0.01
    assert any("closed loop" in note for note in validation_result(validation)["notes"])


def test_nothing_is_fitted_where_nothing_is_missing(deployment: Deployment, tmp_path: Path) -> None:
    files = (
        at_rate(deployment, tmp_path / "a.json", 10.0),
        at_rate(deployment, tmp_path / "b.json", 20.0),
    )
    fit = of_files(deployment, *files, fit_on="a.json").fit
    assert fit is not None
    assert fit.overhead.host == 0.0
    assert fit.overhead.gateway == pytest.approx(0.0, abs=1e-9)  # the clock's rounding


@pytest.mark.parametrize(
    ("fit_on", "message"), [("c", "none of the runs"), ("both", "leaves no run"), ("bare", "aggregates")]
)
def test_bad_runs_to_fit_on(deployment: Deployment, tmp_path: Path, fit_on: str, message: str) -> None:
    files = [
        at_rate(deployment, tmp_path / f"{name}.json", 10.0, count=20, label="both") for name in ("a", "b")
    ]
    bare = at_rate(deployment, tmp_path / "bare.json", 10.0, count=20, **dict.fromkeys(DETAILS))
    with pytest.raises(BadInput, match=message):
        of_files(deployment, *files, bare, fit_on=fit_on)


def test_an_overloaded_run_is_named_and_not_judged(deployment: Deployment, tmp_path: Path) -> None:
    """The replica saturates below 60 requests/s of these lengths."""
    slow = replace(deployment, cost=ScaledCost(deployment.cost, 1.5))
    busy = at_rate(deployment, tmp_path / "busy.json", 200.0, count=600)
    calm = at_rate(deployment, tmp_path / "calm.json", 1.0, count=50)
    validation = of_files(slow, busy, calm, budget={"tpot": 0.6})
    first, second = validation.checks
    assert first.overloaded.startswith("offered ")
    assert (first.counts, second.overloaded, second.counts) == (False, "", True)
    assert abs(first.comparisons["e2e"]["mean"].error or 0) > 0.1
    assert validation.inside is True
    assert validation_result(validation)["validated"]["runs"] == ["calm"]


def test_a_budget_is_held_or_missed(deployment: Deployment, tmp_path: Path) -> None:
    slow = replace(deployment, cost=ScaledCost(deployment.cost, 1.1))
    file = at_rate(deployment, tmp_path / "a.json", 1.0, count=50)
    assert of_files(slow, file).inside is None
    assert of_files(slow, file, budget={"tpot": 0.15}).inside is True
    missed = of_files(slow, file, budget={"tpot": 0.05, "ttft": 5.0})
    assert missed.inside is False
    assert [miss.split(" of ")[0] for miss in missed.misses()] == ["TPOT mean", "TPOT p50", "TPOT p95"]


def test_a_budget_for_what_no_run_shows_is_missed(deployment: Deployment, tmp_path: Path) -> None:
    file = at_rate(deployment, tmp_path / "a.json", 1.0, count=50, itls=None)
    validation = of_files(deployment, file, budget={"itl": 0.5})
    assert validation.inside is False
    assert list(validation.misses()) == ["ITL is checked in no run that counts"]
    assert validation.checks[0].unchecked == ("ITL: the file has none",)


def test_aggregates_alone_are_not_checked_and_say_why(deployment: Deployment, tmp_path: Path) -> None:
    bare = at_rate(deployment, tmp_path / "a.json", 1.0, count=50, **dict.fromkeys(DETAILS))
    [check] = of_files(deployment, bare).checks
    assert check.comparisons == {}
    assert "aggregates alone" in check.unchecked[0]
    assert "--save-detailed" in check.unchecked[0]


def test_a_load_without_rate_or_arrivals_is_not_checked(deployment: Deployment, tmp_path: Path) -> None:
    file = at_rate(deployment, tmp_path / "a.json", 1.0, count=50, start_times=None)
    [check] = of_files(deployment, file).checks
    assert "its load is unknown" in check.unchecked[0]


def test_a_failed_request_is_not_compared(deployment: Deployment, tmp_path: Path) -> None:
    """One failed after its prompt, with unknown output; one had half of its tokens: the second is load."""
    run = run_of(served(deployment, some_requests(50, 5.0)))
    for row, output in ((3, 0), (7, run["output_lens"][7])):
        run["errors"][row], run["output_lens"][row] = "lost", output
    run["completed"] = 48
    [check] = of_files(deployment, write(tmp_path / "a.json", run)).checks
    assert check.load is not None
    assert (len(check.load.rows), int(check.load.compared.sum())) == (49, 48)
    notes = " ".join(check.notes())
    assert "1 of 50 requests" in notes
    assert "1 requests that failed are simulated as load" in notes


def test_runs_are_told_apart(deployment: Deployment, tmp_path: Path) -> None:
    run = run_of(served(deployment, some_requests(30, 5.0)))
    files = [
        write(tmp_path / "one.json", {**run, "label": "night"}),
        write(tmp_path / "two.json", {**run, "label": "night"}),
        write(tmp_path / "three.json", run, run),
    ]
    found = [check.name for check in of_files(deployment, *files).checks]
    assert found[:2] == ["night#1", "night#2"]
    assert len(set(found)) == 4
    assert all(name.startswith("three") for name in found[2:])


def test_the_result_is_json_and_names_what_was_validated(deployment: Deployment, tmp_path: Path) -> None:
    files = [at_rate(deployment, tmp_path / f"{rate}.json", rate, count=60) for rate in (2.0, 9.0)]
    bare = at_rate(deployment, tmp_path / "bare.json", 1.0, count=50, **dict.fromkeys(DETAILS))
    result = validation_result(of_files(deployment, *files, bare, budget={"ttft": 0.1}))
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    assert result["schema"] == "capsim.validation"
    assert result["validated"]["runs"] == ["2.0", "9.0"]
    low, high = result["validated"]["rates"]
    assert [low, high] == pytest.approx(
        [2.0, 9.0], rel=0.4
    )  # three standard deviations of 60 Poisson arrivals
    assert abs(result["score"]["ttft"]["p95"]["worst"]) < ROUNDING
    assert result["service"]["fingerprint"] == service_fingerprint(deployment.scenario)


def test_the_services_fingerprint_is_of_the_service_alone() -> None:
    same = service_fingerprint(load(SMALL))
    assert service_fingerprint(load(SMALL, ["demand.target=1/s", "seed=9", "slo.ttft.p95=1s"])) == same
    for change in ("engine.max_num_seqs=63", "step_cost.base=9ms", "model=llama-3-8b", "gpu=h100-sxm"):
        assert service_fingerprint(load(SMALL, [change])) != same


def test_the_scenarios_fleet_serves(tmp_path: Path) -> None:
    """Two replicas are not one: what they answered is predicted by two only."""
    two = deploy(load(SMALL, ["fleet.replicas=2", "step_cost={source: constant, seconds: 8ms}"]))
    requests = some_requests(300, 60.0)
    log = served(two, requests)
    file = write(tmp_path / "a.json", run_of(log, itls=None))
    [check] = of_files(two, file).checks
    assert all(error is not None and abs(error) < ROUNDING for error in errors(check).values())


def test_many_gaps_are_listed_by_rank() -> None:
    random = np.random.default_rng(0)
    some = random.exponential(1.0, 2000), random.integers(1, 50, 2000)
    gaps = Gaps(lambda: iter([some]))
    exact, thinned = listed(gaps), listed(gaps, most=5000)
    assert len(exact) == gaps.total
    assert len(thinned) == 5000
    for share in (0.1, 0.5, 0.99):  # one rank of 5000 either way
        low, high = np.quantile(exact, [share - 1 / 5000, share + 1 / 5000], method="inverted_cdf")
        assert low <= np.quantile(thinned, share) <= high


def test_a_budget_is_read() -> None:
    assert parse_budget("ttft=10%, tpot=5%") == {"ttft": 0.1, "tpot": 0.05}


@pytest.mark.parametrize("text", ["", "ttft", "latency=10%", "ttft=ten", "ttft=5,tpot=x", "ttft=1%,ttft=2%"])
def test_a_budget_with_faults(text: str) -> None:
    with pytest.raises(BadInput, match="--budget"):
        parse_budget(text)


def test_every_fault_of_a_budget_is_told() -> None:
    with pytest.raises(BadInput) as caught:
        parse_budget("ttft=ten,latency=5%")
    assert len(caught.value.faults) == 2
