"""One simulation as plain data: seconds, bytes, tokens and rates per second; null where there is no figure."""

from __future__ import annotations

from typing import Any

from capsim.plan.demand_record import demand_record
from capsim.plan.heading import heading, identity
from capsim.plan.not_modelled import not_modelled
from capsim.plan.simulation import Simulation
from capsim.plan.step_cost_record import step_cost_record
from capsim.plan.validated import validated, validation_of

Json = dict[str, Any]


def run_result(simulation: Simulation) -> Json:
    """One simulation."""
    deployment, experiment = simulation.deployment, simulation.experiment
    closed = experiment.concurrency is not None
    return {
        **heading("capsim.run"),
        **identity(deployment),
        "load": {
            "kind": experiment.load,
            "replicas": experiment.replicas,
            "rate": None if closed or not experiment.rate else experiment.rate,
            "concurrency": experiment.concurrency,
        },
        "overloaded": simulation.overloaded,
        "saturated_rate": simulation.saturated_rate,
        "demand": {
            **demand_record(deployment),
            "concurrency": experiment.concurrency if closed else "open loop",
        },
        "step_cost": step_cost_record(deployment),
        "validation": validated(
            validation_of(deployment.scenario), deployment.scenario, _rates_per_replica(simulation)
        ),
        "not_modelled": not_modelled(deployment),
        "summary": simulation.sample,
    }


def _rates_per_replica(simulation: Simulation) -> list[float]:
    """The offered rate; where the load sets its own, the rate of the answers. Empty where there was none."""
    experiment = simulation.experiment
    rate = experiment.rate or simulation.sample["throughput"]["requests"]
    return [rate / experiment.replicas] if rate else []
