from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean

import pytest

from capsim.errors import BadInput, Infeasible
from capsim.plan.deployment import deploy
from capsim.plan.evaluator import Evaluator
from capsim.plan.ledger import Ledger
from capsim.plan.runner import Runner
from capsim.plan.saturated_rates import saturated_rates
from capsim.plan.sweep import Sweep, make_sweep
from capsim.plan.sweep_axis import parse_axis
from capsim.plan.sweep_result import sweep_result
from capsim.scenario import Scenario, load

SMALL = Path(__file__).parent / "small.yaml"
SHORT = ("plan.duration=10s", "plan.replications=6")
SATURATION = 3
"""Simulations of the saturated rate, once a deployment."""


def read(changes: tuple[str, ...]) -> Scenario:
    return load(SMALL, [*SHORT, *changes])


def swept(*overs: str, ledger: Ledger | None = None, jobs: int = 1) -> Sweep:
    return make_sweep(read, [parse_axis(over) for over in overs], jobs=jobs, ledger=ledger)


def verdicts(sweep: Sweep) -> list[str]:
    return [point.point.verdict.value if point.point else "" for point in sweep.points]


def test_a_point_is_what_a_plan_finds_at_that_rate() -> None:
    runner = Runner(deploy(read(())))
    evaluator = Evaluator(runner, fmean(saturated_rates(runner)))
    rates = [10.0, 50.0, 90.0]
    planned = evaluator.points("", [(1, rate) for rate in rates])
    found = swept("rate=10/s,50/s,90/s")
    assert [point.point for point in found.points] == planned
    assert verdicts(found)[0] == "pass"
    assert verdicts(found)[-1] == "fail"


def test_a_key_changes_the_deployment_and_keeps_the_load() -> None:
    sweep = swept("engine.max_num_seqs=1,64")
    one, many = sweep.points
    assert one.deployment is not None
    assert many.deployment is not None
    assert (one.deployment.engine.max_num_seqs, many.deployment.engine.max_num_seqs) == (1, 64)
    assert one.experiment == many.experiment
    assert one.point is not None
    assert one.point.overloaded


def test_clients_that_wait_do_not_overload() -> None:
    sweep = swept("concurrency=1,64,400")
    throughput = [point.point.mean("throughput", "requests") for point in sweep.points if point.point]
    assert None not in throughput
    assert throughput[0] < throughput[1]  # type: ignore[operator]
    assert all(point.point is not None and not point.point.overloaded for point in sweep.points)
    assert all(point.saturated_rate is None for point in sweep.points)
    assert verdicts(sweep)[0] == "pass"
    assert verdicts(sweep)[2] == "fail"


def test_each_value_meets_each_of_the_others() -> None:
    sweep = swept("rate=5/s,10/s", "fleet.replicas=1,2")
    assert [point.values for point in sweep.points] == [
        ("5/s", "1"), ("5/s", "2"), ("10/s", "1"), ("10/s", "2"),
    ]  # fmt: skip
    fleets = [
        (point.experiment.rate, point.experiment.replicas) for point in sweep.points if point.experiment
    ]
    assert fleets == [(5, 1), (5, 2), (10, 1), (10, 2)]


def test_what_does_not_fit_is_a_point_without_figures() -> None:
    sweep = swept("engine.num_gpu_blocks=100,4000")
    none, some = sweep.points
    assert none.point is None
    assert "max_model_len 4096" in none.does_not_fit
    assert some.point is not None
    with pytest.raises(Infeasible, match="max_model_len 4096"):
        swept("engine.num_gpu_blocks=100,200")


def test_every_fault_is_told_before_anything_is_simulated(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "experiments.jsonl")
    with pytest.raises(BadInput) as refusal:
        swept("engine.max_num_seqs=8,0,many", "rate=1/s", ledger=ledger)
    assert [str(fault).partition(" is ")[0] for fault in refusal.value.faults] == [
        "--over engine.max_num_seqs: 0",
        "--over engine.max_num_seqs: 'many'",
    ]
    assert len(ledger) == 0


@pytest.mark.parametrize("overs", [("rate=1/s", "rate=2/s"), ("rate=1/s", "concurrency=2")])
def test_one_thing_is_gone_over_once(overs: tuple[str, ...]) -> None:
    with pytest.raises(BadInput, match="--over"):
        swept(*overs)


def test_only_what_lacks_is_simulated(tmp_path: Path) -> None:
    path = tmp_path / "experiments.jsonl"
    first = swept("rate=5/s,10/s", ledger=Ledger(path))
    assert first.performed == SATURATION + 2 * 4
    again = swept("rate=5/s,10/s", ledger=Ledger(path))
    assert again.performed == 0
    assert sweep_result(again) == sweep_result(first)
    assert swept("rate=5/s,10/s,15/s", ledger=Ledger(path)).performed == 4
    assert swept("rate=5/s", "seed=9", ledger=Ledger(path)).performed == SATURATION + 4


def test_a_torn_line_swallows_no_other(tmp_path: Path) -> None:
    """What is finished after an end in the middle of writing is kept for good."""
    path = tmp_path / "experiments.jsonl"
    swept("rate=5/s", ledger=Ledger(path))
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    assert swept("rate=5/s", ledger=Ledger(path)).performed == 1
    assert swept("rate=5/s", ledger=Ledger(path)).performed == 0


def test_the_result_does_not_depend_on_jobs() -> None:
    results = [sweep_result(swept("rate=20/s,60/s", jobs=jobs)) for jobs in (1, 2)]
    assert json.dumps(results[0]) == json.dumps(results[1])


def test_the_result_is_json_with_every_figure_of_a_point() -> None:
    result = sweep_result(swept("concurrency=2", "engine.num_gpu_blocks=100,4000"))
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    unfit, fit = result["points"]
    assert unfit["point"] is None
    assert fit["point"]["rate"] is None
    assert fit["concurrency"] == 2
    assert 0 < fit["pool_share"] < 1
