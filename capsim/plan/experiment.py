"""One simulation as a task: small to send, pure, and JSON in and out."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capsim.cost.step import StepCost
from capsim.errors import BadInput, Fault
from capsim.fleet.configuration import FleetConfiguration
from capsim.fleet.log import LeapColumns, RunLog
from capsim.fleet.simulation import simulate
from capsim.measure.conservation import check_conservation
from capsim.measure.latency import TtftParts
from capsim.measure.leaps import share_of_steps
from capsim.measure.steady import backlog_drift, warm_up
from capsim.measure.summary import summarize
from capsim.plan.deployment import Deployment
from capsim.plan.saturation import saturated_rate
from capsim.units import format_duration, format_rate
from capsim.workload.demand import SyntheticDemand, TraceDemand
from capsim.workload.requests import Requests

Sample = dict[str, Any]
"""What an experiment found, JSON-able."""


@dataclass(frozen=True)
class Experiment:
    """Which fleet meets which load.

    Attributes:
        load: ``resample`` (a draw of the demand at `rate`), ``literal`` (the trace, its time scaled to `rate`),
            ``recorded`` (the trace as it is), ``closed`` (`concurrency` clients that wait for their answers), or
            ``saturation`` (more requests than can be served, all at once).
        replicas: size of the fleet.
        rate: requests/s offered to the fleet; 0 where the load sets its own.
        replication: which independent draw.
        duration: simulated seconds over which requests arrive, of a resample.
        requests: how many, of a closed loop or to saturate.
        concurrency: clients of a closed loop.
        failures: whether the scenario's failures happen.
    """

    load: str
    replicas: int
    rate: float = 0.0
    replication: int = 0
    duration: float = 0.0
    requests: int = 0
    concurrency: int | None = None
    failures: bool = False

    @property
    def key(self) -> str:
        """Identifies the experiment among others of the same deployment."""
        return " ".join(f"{name}={value!r}" for name, value in asdict(self).items())


def perform(deployment: Deployment, experiment: Experiment) -> Sample:
    """Simulate, check that nothing was lost or invented, and summarize."""
    log = record(deployment, experiment)
    if experiment.load == "saturation":
        return {"saturated_rate": saturated_rate(log)}
    return measure(deployment, experiment, log)


def measure(deployment: Deployment, experiment: Experiment, log: RunLog) -> Sample:
    """Summary of a run, its standing, and the share of its steps that lie outside the measured range.

    Only a synthetic open loop has a steady state to wait for: its warm-up is cut and its backlog tested for drift. A
    trace and its resamples carry their own rate over time and are measured whole.
    """
    steady = experiment.load == "resample" and isinstance(deployment.demand, SyntheticDemand)
    cut = _warm_up(log) if steady else 0
    return {
        **summarize(log, deployment.scenario.objectives, cut).as_dict(),
        "backlog_grows": bool(steady and backlog_drift(log).grows),
        "steps_outside": share_of_steps(log.leaps, partial(_outside, deployment.cost)),
        "events": log.events,
    }


def _warm_up(log: RunLog) -> int:
    ttft = TtftParts(log).total
    return warm_up(np.where(np.isfinite(ttft), ttft, 0.0))


def _outside(cost: StepCost, leaps: LeapColumns) -> NDArray[np.bool_]:
    return cost.outside(leaps.prefill_tokens, leaps.chunks, leaps.chunk_past, leaps.decodes, leaps.context)


def record(deployment: Deployment, experiment: Experiment) -> RunLog:
    """Simulate and check, and return the whole log.

    Raises:
        BadInput: a trace is asked for and the demand has none, or no request is drawn.
        InvariantBroken: a conservation law does not hold.
    """
    requests = draw(deployment, experiment)
    if not len(requests):
        rate, duration = format_rate(experiment.rate), format_duration(experiment.duration)
        what = f"no request arrives in {duration} at {rate}, one of the rates that are simulated"
        raise BadInput(Fault("plan.duration", what, expected="time for some hundred requests"))
    fleet = fleet_of(deployment, experiment)
    log = simulate(requests, fleet, deployment.engine, deployment.cost, concurrency=experiment.concurrency)
    check_conservation(log)
    return log


def fleet_of(deployment: Deployment, experiment: Experiment) -> FleetConfiguration:
    """The scenario's fleet at the experiment's size."""
    fleet = deployment.scenario.fleet
    failures = fleet.failures if experiment.failures else ()
    gateway = fleet.gateway
    if gateway is not None and experiment.load == "saturation":
        gateway = replace(gateway, queue=None)  # all requests come at once, and none may be turned away
    return replace(fleet, replicas=experiment.replicas, failures=failures, gateway=gateway)


def draw(deployment: Deployment, experiment: Experiment) -> Requests:
    """The requests of an experiment."""
    return replace(_draw(deployment, experiment), samples=deployment.scenario.demand.samples)


def _draw(deployment: Deployment, experiment: Experiment) -> Requests:
    demand, seed = deployment.demand, deployment.seed(experiment.replication)
    match experiment.load:
        case "resample":
            return demand.draw(experiment.rate, experiment.duration, seed)
        case "closed" | "saturation":
            return demand.saturating(experiment.requests, seed)
    if not isinstance(demand, TraceDemand):
        raise BadInput("the demand is synthetic: there is no trace to replay")
    return demand.recorded() if experiment.load == "recorded" else demand.literal(experiment.rate)


def saturation(deployment: Deployment, replication: int) -> Experiment:
    """The experiment that measures what one replica serves when it is never idle.

    Ten full batches of requests, at least 1,000: the first and the last batch are not measured.
    """
    tokens = max(1, round(deployment.demand.mean_prompt + deployment.demand.mean_output))
    sequences = min(deployment.engine.max_num_seqs, deployment.memory.concurrency(tokens))
    batch = sequences / deployment.scenario.demand.samples
    count = int(np.clip(10 * batch, 1_000, 20_000))
    return Experiment("saturation", 1, replication=replication, requests=count)
