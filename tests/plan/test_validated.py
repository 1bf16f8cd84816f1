"""A simulated run, measured and validated, tells a plan how far off it may be; a plan of something else is told so."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from capsim.benchmark.reader import read_benchmark
from capsim.cost.scaled import ScaledCost
from capsim.errors import BadInput
from capsim.plan.deployment import Deployment, deploy
from capsim.plan.overhead import Overhead, with_overhead
from capsim.plan.plan_result import plan_result
from capsim.plan.planner import make_plan
from capsim.plan.run_result import run_result
from capsim.plan.runner import Runner
from capsim.plan.simulation import run_simulation
from capsim.plan.validated import read_validation, validated
from capsim.plan.validation import validate
from capsim.plan.validation_result import validation_result
from capsim.report.text import plan_text
from capsim.scenario import Scenario, load, resolved
from tests.plan.benchmark_files import run_of, served, some_requests, write
from tests.plan.conftest import SMALL

Json = dict[str, Any]
SLOWER = 1.1
"""Steps of the service that is measured, against those that are simulated."""
RATES = (10.0, 25.0)
QUICK = ("plan.duration=20s", "plan.replications=3", "plan.resolution=20%")
"""A plan to be told of, whose answer is nobody's."""
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "result.md"


def validation_file(folder: Path, deployment: Deployment, **options: Any) -> Path:
    """What validating runs of a service with steps 10 % longer finds, as the command writes it."""
    measured = replace(deployment, cost=ScaledCost(deployment.cost, SLOWER))
    runs = []
    for rate in RATES:
        file = write(folder / f"at{rate:g}.json", run_of(served(measured, some_requests(200, rate))))
        runs += read_benchmark(file)
    path = folder / "validation.json"
    path.write_text(json.dumps(validation_result(validate(deployment, runs, **options)), indent=1))
    return path


@pytest.fixture(scope="module")
def validation(tmp_path_factory: pytest.TempPathFactory, deployment: Deployment) -> Path:
    return validation_file(tmp_path_factory.mktemp("validated"), deployment)


def scenario_with(validation: Path, *changes: str) -> Scenario:
    return load(SMALL, [f"validation={validation}", *changes])


def changed(validation: Path, folder: Path, change: Callable[[Json], object]) -> Path:
    record = json.loads(validation.read_text())
    change(record)
    path = folder / "changed.json"
    path.write_text(json.dumps(record))
    return path


def judged(validation: Path, *changes: str, rates: tuple[float, ...] = (11.0, 12.0)) -> Json:
    found = validated(read_validation(validation), load(SMALL, changes), rates)
    assert found is not None
    return found


def test_a_plan_knows_the_errors_of_its_validation(validation: Path) -> None:
    """Measured steps are a tenth longer than simulated ones, which is about what the errors must be."""
    result = plan_result(make_plan(Runner(deploy(scenario_with(validation, *QUICK)))))
    known = result["confidence"]["validation"]
    assert known["same_service"] is True
    assert (known["runs"], known["requests"]) == (2, 400)
    assert set(known["score"]) == {"ttft", "tpot", "itl", "e2e"}
    # A token takes 1 / 1.1 of its time or, with the company that leaves sooner, a little less.
    assert 1 - 1 / SLOWER <= known["score"]["tpot"]["mean_size"] < 0.13
    assert -0.2 < known["score"]["tpot"]["worst"] < 1 / SLOWER - 1
    score = json.loads(validation.read_text())["score"]
    for metric, figures in known["score"].items():
        held = [score[metric][statistic]["worst"] for statistic in ("mean", "p50", "p95")]
        assert figures["worst"] == max(held, key=abs)
        assert figures["mean_size"] == score[metric]["mean"]["mean_size"]
    loads = [trial["point"]["rate_per_replica"] for trial in result["answer"]["chosen"]["trials"]]
    assert known["rate_per_replica"] == [min(loads), max(loads)]
    low, high = known["validated_rate_per_replica"]
    assert known["inside"] is (low <= min(loads) and max(loads) <= high)
    text = " ".join(plan_text(result).split())
    assert "Validated on 2 measured runs (400 requests)." in text
    assert json.loads(json.dumps(result, allow_nan=False)) == result


def test_without_a_validation_nothing_is_known(deployment: Deployment) -> None:
    assert run_result(run_simulation(deployment, requests=50))["validation"] is None


@pytest.mark.parametrize(("load", "rate"), [({"rate": 15.0}, 15.0), ({"concurrency": 4}, None)])
def test_a_run_knows_them_too(validation: Path, load: Json, rate: float | None) -> None:
    """At the rate that is offered; a closed loop at the rate of its answers. Both are a replica's."""
    scenario = scenario_with(validation, "fleet.replicas=2")
    result = run_result(run_simulation(deploy(scenario), requests=100, **load))
    known = result["validation"]
    expected = (rate or result["summary"]["throughput"]["requests"]) / 2
    assert known["same_service"] is True
    assert known["rate_per_replica"] == [expected, expected]
    assert known["inside"] is (RATES[0] < expected)  # 200 arrivals at 10/s: between 7.5 and 12.5, if at all


def test_a_load_outside_the_measured_ones_is_outside(validation: Path) -> None:
    low, high = judged(validation)["validated_rate_per_replica"]
    assert (low, high) == pytest.approx(RATES, rel=0.25)  # three standard deviations of 200 Poisson arrivals
    for rates, inside in (
        ((low, high), True),
        ((low * 0.99, high), False),
        ((low, high * 1.01), False),
        ((), None),
    ):
        assert judged(validation, rates=rates)["inside"] is inside


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        ("engine.max_num_seqs=63", "engine.max_num_seqs was 64, here 63"),
        ("engine.enable_prefix_caching=false", "engine.enable_prefix_caching was true, here false"),
        ("engine.num_gpu_blocks=null", "engine.num_gpu_blocks was 4000, here not stated"),
        ("step_cost.base=9ms", "step_cost.base was 8ms, here 9ms"),
        ("step_cost={source: roofline}", "step_cost.source was linear, here roofline"),
        ("model=llama-3-8b", "model was llama-3.1-8b, here llama-3-8b"),
        ("gpu=h100-sxm", "gpu was h200, here h100-sxm"),
    ],
)
def test_another_service_is_named_and_its_errors_are_not_used(
    validation: Path, change: str, difference: str
) -> None:
    known = judged(validation, change)
    assert known["same_service"] is False
    assert known["differences"] == [difference]
    assert (known["score"], known["validated_rate_per_replica"], known["inside"]) == (None, None, None)


def test_a_service_of_the_same_words_may_be_another(validation: Path, tmp_path: Path) -> None:
    other = changed(validation, tmp_path, lambda record: record["service"].update(fingerprint="0"))
    [difference] = judged(other)["differences"]
    assert "file says something else" in difference


def test_profiles_of_one_name_are_compared_by_content(tmp_path: Path, validation: Path) -> None:
    """A profile that was moved is the same; the fingerprint, which reads it, has told that it is not."""

    def moved(record: Json) -> None:
        record["configuration"]["step_cost"] = {"source": "profile", "path": "/there/mine.json"}

    (tmp_path / "mine.json").write_text("{}")
    profile = f"step_cost={{source: profile, path: {tmp_path / 'mine.json'}}}"
    [difference] = judged(changed(validation, tmp_path, moved), profile)["differences"]
    assert "file says something else" in difference


def test_a_demand_a_fleet_and_objectives_of_ones_own_are_no_other_service(validation: Path) -> None:
    changes = ("demand.target=5/s", "fleet.replicas=4", "slo.ttft.p95=1s", "seed=8", "name=mine")
    assert judged(validation, *changes)["same_service"] is True


def test_a_fitted_overhead_that_the_plan_lacks_does_not_flatter_it(
    deployment: Deployment, tmp_path: Path
) -> None:
    """The errors are those of the steps that are planned with, and a gateway that was fitted was nobody's setting."""
    far = with_overhead(deployment, Overhead(gateway=0.002))
    path = validation_file(tmp_path, far, fit_on="at25")
    record = json.loads(path.read_text())
    known = judged(path, "fleet.latencies.gateway=2ms")
    for metric, figures in known["score"].items():
        assert figures["mean_size"] == record["fit"]["score_without"][metric]["mean"]["mean_size"]
        assert figures["mean_size"] > record["score"][metric]["mean"]["mean_size"]
    assert known["runs"] == 1
    [note] = known["notes"]
    assert "the errors are those without it" in note
    _, note = judged(path)["notes"]
    assert note == "TTFT and E2E were validated with a gateway latency of 2ms, here it is 0s"


def test_a_missed_budget_and_another_version_are_noted(validation: Path, tmp_path: Path) -> None:
    old = changed(
        validation, tmp_path, lambda record: record.update(inside_budget=False, capsim_version="0.0.1")
    )
    budget, version = judged(old)["notes"]
    assert "not inside its budget" in budget
    assert version.startswith("capsim 0.0.1 was validated, this is ")


def test_a_validation_in_which_no_run_counts_has_no_score(deployment: Deployment, tmp_path: Path) -> None:
    run = run_of(served(deployment, some_requests(50, 5.0)), start_times=None)
    runs = read_benchmark(write(tmp_path / "a.json", run))
    path = tmp_path / "validation.json"
    path.write_text(json.dumps(validation_result(validate(deployment, runs))))
    known = judged(path)
    assert (known["score"], known["runs"], known["inside"]) == ({}, 0, None)


def test_the_validation_does_not_enter_the_fingerprint(validation: Path) -> None:
    """Results compare, and finished simulations are found again, whatever is said of them."""
    with_it, without = scenario_with(validation), load(SMALL)
    assert resolved(with_it)["validation"] == str(validation.resolve())
    assert deploy(with_it).fingerprint == deploy(without).fingerprint


def no_rates(record: Json) -> None:
    record["validated"]["rates_per_replica"] = [3.0, 2.0]


def no_count(record: Json) -> None:
    record["runs"][1]["requests"]["compared"] = True


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda record: record.update(schema="capsim.plan"),
            "schema: 'capsim.plan' cannot be read here, expected capsim.validation",
        ),
        (
            lambda record: record.update(schema_version=2),
            "schema_version: 2 cannot be read here, expected 1",
        ),
        (lambda record: record.update(schema_version=True), "schema_version: true cannot be read"),
        (lambda record: record.clear(), "changed.json"),
        (lambda record: record.pop("schema"), "schema: is missing, expected capsim.validation"),
        (lambda record: record.pop("service"), "service.fingerprint: is missing, expected text"),
        (lambda record: record["score"].update(ttft=3), "score.ttft: 3 is not a mapping"),
        (lambda record: record["configuration"].pop("gpu"), "configuration.gpu: is missing"),
        (lambda record: record.update(runs={}), "runs: a mapping is not a list"),
        (no_rates, "rates_per_replica: 3 to 2 is no range"),
        (no_count, r"runs\[1\].requests.compared: true is not a number"),
    ],
)
def test_what_is_no_validation_is_refused_at_its_place(
    validation: Path, tmp_path: Path, change: Callable[[Json], object], message: str
) -> None:
    path = changed(validation, tmp_path, change)
    with pytest.raises(BadInput, match=message) as refusal:
        read_validation(path)
    assert len(refusal.value.faults) == 1
    with pytest.raises(BadInput, match=r"changed\.json"):
        make_plan(Runner(deploy(scenario_with(path))))


def test_every_field_is_described_and_no_other(validation: Path) -> None:
    section = PAGE.read_text(encoding="utf-8").split("\n## Validated\n")[1].split("\n## ")[0]
    described = {
        name for item in section.split("\n- ")[1:] for name in re.findall(r"`([^`]+)`", item.split(": ")[0])
    }
    assert described == set(judged(validation))
