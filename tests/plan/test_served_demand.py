"""The inverse question, against the forward one."""

from __future__ import annotations

import pytest

from capsim.errors import Infeasible
from capsim.plan.deployment import Deployment, deploy
from capsim.plan.plan_result import plan_result
from capsim.plan.planner import Plan, make_inverse_plan, make_plan
from capsim.plan.runner import Runner
from capsim.plan.verdict import Verdict
from capsim.report.explanation import plan_explanation
from capsim.report.text import plan_text
from capsim.scenario import load
from tests.plan.conftest import SMALL

SHORT = ("plan.duration=20s", "plan.replications=3", "plan.resolution=20%")
"""The forward and the inverse question must agree whatever the runs' length."""
REPLICAS = 2


def short(*changes: str) -> Deployment:
    return deploy(load(SMALL, [*SHORT, *changes]))


@pytest.fixture(scope="module")
def inverse() -> Plan:
    return make_inverse_plan(Runner(short()), REPLICAS)


def test_the_demand_lies_in_a_bracket_finer_than_a_replica(inverse: Plan) -> None:
    served = inverse.served
    assert served is not None
    above, check = served.above
    assert served.check.verdict is Verdict.PASS
    assert check.verdict is not Verdict.PASS
    assert served.target < above <= served.target * (1 + 1 / (4 * REPLICAS))
    assert [demand for demand, _ in served.tried] == sorted(demand for demand, _ in served.tried)
    assert inverse.deployment.target_rate == served.target


def test_a_plan_of_the_demand_found_has_as_many_replicas(inverse: Plan) -> None:
    assert inverse.served is not None
    forward = make_plan(Runner(short(f"demand.target={inverse.served.target!r}/s")))
    assert forward.replicas.chosen.replicas == REPLICAS
    assert forward.deployment.fingerprint == inverse.deployment.fingerprint
    result, other = plan_result(forward), plan_result(inverse)
    for key in ("demand", "operating_point", "saturated_rate", "configuration", "comparable"):
        assert result[key] == other[key]
    assert result["answer"]["chosen"] == other["answer"]["chosen"]


def test_a_plan_of_a_little_more_has_one_replica_more(inverse: Plan) -> None:
    assert inverse.served is not None
    above, _ = inverse.served.above
    forward = make_plan(Runner(short(f"demand.target={above!r}/s")))
    assert forward.replicas.chosen.replicas == REPLICAS + 1


def test_the_scenario_s_target_plays_no_part_and_its_unit_does(inverse: Plan) -> None:
    assert inverse.served is not None
    tokens = make_inverse_plan(Runner(short("demand.target=1 tokens/s")), REPLICAS)
    assert tokens.served is not None
    assert tokens.deployment.scenario.demand.unit == "output_tokens"
    mean = tokens.deployment.demand.mean_output
    # Both demands are rounded to 5 digits, at each step of their searches.
    assert tokens.served.target / mean == pytest.approx(inverse.served.target, rel=1e-3)


def test_it_is_told_in_text_and_can_be_explained(inverse: Plan) -> None:
    result = plan_result(inverse)
    served = result["served"]
    assert served["bracket"] == [served["target"], inverse.served.above[0] if inverse.served else None]
    assert served["ends"] in plan_text(result).replace("\n  ", " ")
    assert plan_explanation(result)["answer"]["replicas"] == REPLICAS


def test_one_replica_that_goes_missing_serves_nothing() -> None:
    with pytest.raises(Infeasible, match="a fleet of one replica does not survive replica_missing"):
        make_inverse_plan(Runner(short()), 1)


def test_objectives_that_no_rate_meets_are_infeasible() -> None:
    with pytest.raises(Infeasible, match="one replica does not pass: tpot p95"):
        make_inverse_plan(Runner(short("slo.tpot.p95=1ms")), REPLICAS)
