from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from capsim.errors import BadInput, Infeasible
from capsim.plan.deployment import Deployment, deploy
from capsim.plan.experiment import Experiment, record
from capsim.plan.ledger import Ledger
from capsim.plan.plan_result import plan_result
from capsim.plan.planner import Plan, make_plan
from capsim.plan.runner import Runner
from capsim.plan.verdict import Verdict
from capsim.scenario import load
from tests.plan.conftest import SMALL


def text(plan: Plan) -> str:
    return json.dumps(plan_result(plan), allow_nan=False)


def test_same_seed_same_bytes_at_any_number_of_jobs(deployment: Deployment, plan: Plan) -> None:
    assert text(make_plan(Runner(deployment, jobs=2))) == text(plan)


def test_another_seed_gives_another_run(deployment: Deployment, plan: Plan) -> None:
    other = deploy(replace(deployment.scenario, seed=4))
    assert other.fingerprint != deployment.fingerprint
    assert text(make_plan(Runner(other))) != text(plan)


def test_the_operating_point_is_below_every_other_bound(plan: Plan) -> None:
    point = plan.operating_point
    assert point.passing.verdict is Verdict.PASS
    assert point.failing.verdict is not Verdict.PASS
    assert point.rate < point.failing.rate <= point.rate * 1.05
    assert point.rate < min(plan.saturated_rates) < plan.bound.rate


def test_the_fleet_passes_and_one_less_does_not(plan: Plan) -> None:
    assert plan.replicas.chosen.verdict is Verdict.PASS
    assert plan.replicas.below is not None
    assert plan.replicas.below.verdict is not Verdict.PASS
    full, missing = plan.replicas.chosen.trials
    assert full.point is not None
    assert missing.point is not None
    assert (full.point.replicas, full.point.rate) == (plan.replicas.chosen.replicas, pytest.approx(72.0))
    assert (missing.point.replicas, missing.point.rate) == (plan.replicas.chosen.replicas - 1, 60.0)


def test_every_point_beyond_saturation_is_called_overloaded(plan: Plan) -> None:
    saturated = sum(plan.saturated_rates) / len(plan.saturated_rates)
    for point in plan.operating_point.sweep:
        assert bool(point.overloaded) == (point.rate >= saturated) or "grows" in point.overloaded


def test_the_alone_request_sees_the_least(plan: Plan) -> None:
    median = plan.baseline[0]
    slowest = plan.operating_point.passing.mean("user", "tpot", "p50")
    assert median.tpot is not None
    assert slowest is not None
    assert median.tpot < slowest


def test_an_interrupted_plan_goes_on_where_it_stopped(
    deployment: Deployment, plan: Plan, tmp_path: Path
) -> None:
    class Interruption:
        def __init__(self, after: int) -> None:
            self.left = after

        def start(self, stage: str, total: int) -> None:
            pass

        def advance(self) -> None:
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt

    path = tmp_path / "experiments.jsonl"
    with pytest.raises(KeyboardInterrupt):
        make_plan(Runner(deployment, ledger=Ledger(path), progress=Interruption(10)))
    with path.open("a") as file:
        file.write('{"key": "cut off in wri')
    ledger = Ledger(path)
    assert len(ledger) == 10
    assert text(make_plan(Runner(deployment, ledger=ledger))) == text(plan)


def test_finished_experiments_are_not_done_again(deployment: Deployment, tmp_path: Path) -> None:
    path = tmp_path / "experiments.jsonl"
    experiment = Experiment("resample", 1, rate=5.0, duration=20.0)
    first = Runner(deployment, ledger=Ledger(path))
    sample = first.run("", [experiment])
    again = Runner(deployment, ledger=Ledger(path))
    assert again.run("", [experiment]) == sample
    assert (first.performed, again.performed) == (1, 0)
    changed = Runner(deploy(replace(deployment.scenario, seed=9)), ledger=Ledger(path))
    changed.run("", [experiment])
    assert changed.performed == 1


def test_an_objective_below_one_request_alone_is_infeasible() -> None:
    scenario = load(SMALL, ["slo.tpot.p95=1ms"])
    with pytest.raises(
        Infeasible, match=r"does not pass: tpot p95 is [\d.]+ms against 1ms\n.*relax tpot p95"
    ):
        make_plan(Runner(deploy(scenario)))


def test_a_missed_quality_gate_is_infeasible() -> None:
    scenario = load(SMALL, ["slo.quality={mmlu: {value: 0.6, minimum: 0.65}}"])
    with pytest.raises(Infeasible, match=r"mmlu is 0\.6 against 0\.65"):
        make_plan(Runner(deploy(scenario)))


def test_requests_that_can_never_run_are_refused_or_counted() -> None:
    with pytest.raises(BadInput, match="no request can be served"):
        deploy(load(SMALL, ["demand.synthetic.prompt_tokens={distribution: fixed, value: 5000}"]))
    deployment = deploy(load(SMALL, ["engine.max_model_len=700", "engine.num_gpu_blocks=200"]))
    sample = Runner(deployment).run("", [Experiment("resample", 1, rate=2.0, duration=100.0)])[0]
    assert sample["counts"]["rejected"] > 0
    assert sample["counts"]["rejected"] + sample["counts"]["completed"] == sample["counts"]["offered"]


def test_a_demand_in_tokens_is_the_same_demand(deployment: Deployment) -> None:
    tokens = deploy(load(SMALL, ["demand.target=3600 tokens/s"]))
    assert tokens.target_rate == pytest.approx(deployment.target_rate, rel=1e-12)


def test_a_run_in_which_nothing_arrives_says_at_which_rate() -> None:
    deployment = deploy(load(SMALL))
    with pytest.raises(BadInput, match=r"no request arrives in 1s at 0\.001/s, one of the rates"):
        record(deployment, Experiment("resample", 1, rate=0.001, duration=1.0))
