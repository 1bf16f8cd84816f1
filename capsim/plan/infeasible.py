"""A question without a feasible answer as plain data, so that a run folder says so too."""

from __future__ import annotations

from typing import Any

from capsim.errors import Infeasible
from capsim.plan.heading import heading
from capsim.scenario import Scenario, resolved

Json = dict[str, Any]


def infeasible_result(scenario: Scenario, error: Infeasible) -> Json:
    """Which limit was exceeded and by how much, what would help, and what was asked."""
    return {
        **heading("capsim.infeasible"),
        "scenario": scenario.name,
        "seed": scenario.seed,
        "limit": error.limit,
        "remedies": list(error.remedies),
        "configuration": resolved(scenario),
    }
