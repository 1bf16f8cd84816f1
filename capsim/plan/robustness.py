"""How wrong may the step cost be before the answer changes?"""

from __future__ import annotations

from dataclasses import dataclass, replace

from capsim.cost.scaled import ScaledCost
from capsim.plan.evaluator import Evaluator
from capsim.plan.replicas import FleetCheck, check_fleet
from capsim.plan.runner import Runner
from capsim.plan.verdict import Verdict

SLOWDOWNS = (1.05, 1.1, 1.2)
"""Every step this much longer: the errors that step-cost models of peers show on measured runs are of this size."""
REPLICATIONS = 3
"""A what-if needs no sharper verdict than one look gives; it may stay undecided."""


@dataclass(frozen=True)
class Slowdown:
    """The chosen fleet with every step `factor` times as long."""

    factor: float
    check: FleetCheck


def slowdowns(runner: Runner, replicas: int, saturated_rate: float) -> tuple[Slowdown, ...]:
    """Try a fleet with slower and slower steps, up to the first that does not pass.

    Args:
        runner: of the deployment as it is.
        replicas: size of the fleet.
        saturated_rate: requests/s of one replica that is never idle, as it is.
    """
    found: list[Slowdown] = []
    deployment = runner.deployment
    plan = deployment.scenario.plan
    for factor in SLOWDOWNS:
        slower = replace(
            deployment,
            cost=ScaledCost(deployment.cost, factor),
            fingerprint=f"{deployment.fingerprint} x{factor:g}",
        )
        budget = min(REPLICATIONS, plan.replications)
        evaluator = Evaluator(runner.of(slower), saturated_rate / factor, budget)
        check = check_fleet(evaluator.all_pass, replicas, deployment.target_rate, plan)
        found.append(Slowdown(factor, check))
        if check.verdict is not Verdict.PASS:
            break
    return tuple(found)
