"""One simulation asked for by name: at a rate, at a concurrency, or the trace as it is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import fmean

from capsim.fleet.log import RunLog
from capsim.plan.deployment import Deployment
from capsim.plan.experiment import Experiment, Sample, measure, record
from capsim.plan.progress import Progress
from capsim.plan.runner import Runner
from capsim.plan.saturated_rates import saturated_rates

SETTLE = 20
"""Requests a closed-loop client sends: enough that the first round, which starts in step, is a small part."""


@dataclass(frozen=True)
class Simulation:
    """One run and how it stands.

    Attributes:
        deployment: what was simulated.
        experiment: under which load.
        log: all that was recorded.
        sample: its summary.
        saturated_rate: requests/s that the fleet completes when it is never idle, from a separate run.
        overloaded: why the fleet is overloaded, empty if it is not; a closed loop never is.
    """

    deployment: Deployment
    experiment: Experiment
    log: RunLog
    sample: Sample
    saturated_rate: float
    overloaded: str


def run_simulation(
    deployment: Deployment,
    *,
    rate: float | None = None,
    concurrency: int | None = None,
    recorded: bool = False,
    requests: int | None = None,
    progress: Progress | None = None,
) -> Simulation:
    """Simulate the scenario's own fleet once, failures included.

    The short runs that measure the saturated rate are made in this process: another takes longer to start.

    Args:
        deployment: what is simulated.
        rate: requests/s of an open loop; the scenario's target if nothing else is asked for.
        concurrency: clients of a closed loop instead.
        recorded: replay the trace at its own times instead.
        requests: how many; by default the scenario's duration of them, in a closed loop 20 a client.
        progress: told of the experiments.
    """
    replicas = deployment.scenario.fleet.replicas
    experiment = Experiment("recorded", replicas, failures=True)
    if concurrency is not None:
        count = requests or max(200, SETTLE * concurrency)
        experiment = replace(experiment, load="closed", requests=count, concurrency=concurrency)
    elif not recorded:
        offered = deployment.target_rate if rate is None else rate
        duration = requests / offered if requests else deployment.scenario.plan.duration
        experiment = replace(experiment, load="resample", rate=offered, duration=duration)
    log = record(deployment, experiment)
    sample = measure(deployment, experiment, log)
    saturated = replicas * fmean(saturated_rates(Runner(deployment, progress=progress)))
    return Simulation(
        deployment, experiment, log, sample, saturated, _overload(experiment, sample, saturated)
    )


def _overload(experiment: Experiment, sample: Sample, saturated: float) -> str:
    if experiment.concurrency is not None:
        return ""
    offered = experiment.rate or sample["throughput"]["offered"]
    if offered and offered >= saturated:
        return f"offered {offered:.4g}/s, saturated at {saturated:.4g}/s"
    return "the backlog grows" if sample["backlog_grows"] else ""
