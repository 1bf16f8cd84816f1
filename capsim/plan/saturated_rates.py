from __future__ import annotations

from capsim.plan.experiment import saturation
from capsim.plan.runner import Runner

REPLICATIONS = 3


def saturated_rates(runner: Runner) -> tuple[float, ...]:
    """Requests/s of one replica that is never idle, one figure a replication."""
    experiments = [saturation(runner.deployment, i) for i in range(REPLICATIONS)]
    return tuple(sample["saturated_rate"] for sample in runner.run("saturated rate", experiments))
