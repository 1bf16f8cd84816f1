"""A demand as plain data."""

from __future__ import annotations

from typing import Any

from capsim.plan.deployment import Deployment, Fitted
from capsim.scenario import Scenario
from capsim.workload.demand import Demand

Json = dict[str, Any]


def demand_record(deployment: Deployment) -> Json:
    """The demand that a result was obtained on."""
    settings = deployment.scenario.demand
    return {
        "target": settings.target,
        "unit": settings.unit,
        "target_rate": deployment.target_rate,
        "concurrency": "open loop",
        "sampling": dict(settings.sampling),
        "unservable_share": unservable_share(deployment),
        "priorities": priorities(deployment.scenario, deployment.demand),
        **deployment.demand.description(),
    }


def priorities(scenario: Scenario, demand: Demand) -> str:
    """What becomes of the requests' priorities: ``none`` are stated, or they are ``ignored`` or ``heeded``."""
    if not demand.states_priorities:
        return "none"
    return "heeded" if scenario.engine.scheduling_policy == "priority" else "ignored"


def unservable_share(deployment: Fitted) -> float:
    """Share of the demand's requests that exceed `max_model_len` or the whole KV pool, and are rejected."""
    lengths = deployment.sample()
    return float(1 - deployment.engine.admits(lengths.prompt, lengths.output).mean())
