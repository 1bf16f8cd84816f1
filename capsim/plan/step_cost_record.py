"""Where a deployment's step costs come from, as plain data."""

from __future__ import annotations

from typing import Any

from capsim.cost import ProfileCost
from capsim.plan.deployment import Deployment

Json = dict[str, Any]


def step_cost_record(deployment: Deployment) -> Json:
    """The source, its figures, and what to know of them."""
    cost = deployment.cost
    return {
        "source": cost.source,
        "description": cost.description,
        "figures": {name: factor._asdict() for name, factor in cost.describe().items()},
        "differences": _differences(deployment),
        "notes": list(cost.profile.provenance.notes) if isinstance(cost, ProfileCost) else [],
    }


def _differences(deployment: Deployment) -> list[str]:
    """Where a profile was measured on something near what the scenario asks for, but not on it."""
    cost, engine = deployment.cost, deployment.scenario.engine
    if not isinstance(cost, ProfileCost):
        return []
    measured = f"{cost.profile.provenance.engine} {cost.profile.provenance.engine_version}"
    asked = f"{engine.name} {engine.version}"
    return [] if measured == asked else [f"measured on {measured}, the scenario runs {asked}"]
