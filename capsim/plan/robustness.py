"""How wrong may the step cost be before the answer changes?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from capsim.cost.scaled import ScaledCost
from capsim.plan.deployment import Deployment
from capsim.plan.evaluator import Evaluator
from capsim.plan.ledger import Ledger
from capsim.plan.progress import Progress
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


def slowdowns(
    deployment: Deployment,
    replicas: int,
    saturated_rate: float,
    *,
    jobs: int,
    ledger: Ledger,
    progress: Progress,
    drills: Sequence[str],
) -> tuple[Slowdown, ...]:
    """Try the chosen fleet with slower and slower steps, up to the first that does not pass."""
    found: list[Slowdown] = []
    plan = deployment.scenario.plan
    for factor in SLOWDOWNS:
        slower = replace(
            deployment,
            cost=ScaledCost(deployment.cost, factor),
            fingerprint=f"{deployment.fingerprint} x{factor:g}",
        )
        runner = Runner(slower, jobs, ledger, progress)
        evaluator = Evaluator(runner, saturated_rate / factor, min(REPLICATIONS, plan.replications))
        check = check_fleet(evaluator.all_pass, replicas, deployment.target_rate, plan.reserve, drills)
        found.append(Slowdown(factor, check))
        if check.verdict is not Verdict.PASS:
            break
    return tuple(found)
