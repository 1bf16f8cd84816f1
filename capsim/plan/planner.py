from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np

from capsim.memory.weights import weight_bytes
from capsim.plan.baseline import Alone, baseline
from capsim.plan.bound import Bound, bound
from capsim.plan.deployment import SAMPLE, Deployment
from capsim.plan.evaluator import Evaluator
from capsim.plan.experiment import Experiment, Sample, saturation
from capsim.plan.ledger import Ledger
from capsim.plan.operating_point import OperatingPoint, find_operating_point
from capsim.plan.progress import Progress, Silence
from capsim.plan.replicas import ReplicaCount, find_replicas, first_estimate
from capsim.plan.robustness import Slowdown, slowdowns
from capsim.plan.runner import Runner
from capsim.plan.validated import ValidationRecord, validation_of
from capsim.workload.demand import TraceDemand

SATURATION_REPLICATIONS = 3


MOST_REQUESTS = 500_000
"""Of one replay: about 10 s of one core, and 200 MB."""


@dataclass(frozen=True)
class Replay:
    """The recorded demand against the chosen fleet, in one run.

    Attributes:
        kind: ``literal``: the trace itself, its time compressed or stretched to the rate. ``own pace``: a resample
            over the trace's whole duration, so that peaks last as long as recorded, at the load that asks most of a
            replica.
        load: which load of the fleet it stands for.
        replicas: that serve it.
        rate: requests/s.
        duration: seconds.
        sample: what was found.
    """

    kind: str
    load: str
    replicas: int
    rate: float
    duration: float
    sample: Sample

    @property
    def passed(self) -> bool:
        """Whether every gate passed in this one run."""
        return bool(self.sample["passed"])


@dataclass(frozen=True)
class Plan:
    """Everything that a plan found, from the answer down to its evidence.

    Attributes:
        deployment: what was planned.
        replicas: the answer and how it was found.
        operating_point: of one replica.
        goodput: requests/s of one replica inside all objectives, at its operating point.
        saturated_rates: requests/s of one replica that is never idle, one a replication.
        baseline: one request alone.
        bound: rates that no scheduler can exceed.
        slowdowns: the chosen fleet with longer steps.
        replays: the literal trace against the chosen fleet; empty for a synthetic demand.
        validation: what the scenario's validation found; None: it names none.
    """

    deployment: Deployment
    replicas: ReplicaCount
    operating_point: OperatingPoint
    goodput: float
    saturated_rates: tuple[float, ...]
    baseline: tuple[Alone, ...]
    bound: Bound
    slowdowns: tuple[Slowdown, ...]
    replays: tuple[Replay, ...]
    validation: ValidationRecord | None = None


def make_plan(
    deployment: Deployment,
    *,
    jobs: int = 1,
    ledger: Ledger | None = None,
    progress: Progress | None = None,
) -> Plan:
    """From a deployment to its replica count.

    Args:
        deployment: what is planned.
        jobs: processes; the result does not depend on it.
        ledger: finished experiments of an earlier, interrupted run.
        progress: told of each experiment.

    Raises:
        BadInput: the scenario's validation is none that can be read.
        Infeasible: no rate passes for one replica, or no fleet passes at the target.
    """
    validation = validation_of(deployment.scenario)
    ledger = Ledger(None) if ledger is None else ledger
    progress = progress or Silence()
    settings = deployment.scenario.plan
    runner = Runner(deployment, jobs, ledger, progress)
    alone = baseline(deployment)
    saturated = saturated_rates(runner)
    evaluator = Evaluator(runner, fmean(saturated))
    point = find_operating_point(evaluator, fmean(saturated), settings.resolution)
    goodput = point.passing.mean("goodput", "requests") or point.rate
    count = find_replicas(
        evaluator,
        estimate=first_estimate(deployment.target_rate, goodput, settings.reserve),
        target=deployment.target_rate,
        reserve=settings.reserve,
        drills=settings.drills,
        max_replicas=settings.max_replicas,
    )
    return Plan(
        deployment=deployment,
        replicas=count,
        operating_point=point,
        goodput=goodput,
        saturated_rates=saturated,
        baseline=alone,
        bound=hand_bound(deployment),
        slowdowns=slowdowns(
            deployment,
            count.chosen.replicas,
            fmean(saturated),
            jobs=jobs,
            ledger=ledger,
            progress=progress,
            drills=settings.drills,
        ),
        replays=_replays(runner, count),
        validation=validation,
    )


def saturated_rates(runner: Runner) -> tuple[float, ...]:
    """Requests/s of one replica that is never idle, one figure a replication."""
    experiments = [saturation(runner.deployment, i) for i in range(SATURATION_REPLICATIONS)]
    return tuple(sample["saturated_rate"] for sample in runner.run("saturated rate", experiments))


def hand_bound(deployment: Deployment) -> Bound:
    """Rates that no scheduler can exceed on one replica of this deployment."""
    scenario = deployment.scenario
    engine = scenario.engine
    requests = deployment.demand.saturating(SAMPLE, deployment.seed(0))
    found = np.zeros(len(requests), dtype=np.int64)
    if deployment.engine.enable_prefix_caching and requests.prefixes is not None:
        found = np.minimum(requests.prefixes.shared_tokens(), requests.prompt - 1)
    see_all = (group for group in deployment.memory.layout.groups if group.kind in ("full", "latent"))
    return bound(
        scenario.model,
        scenario.gpu,
        replace(requests, samples=scenario.demand.samples),
        found=found,
        tensor_parallel_size=engine.tensor_parallel_size,
        weight_bytes=weight_bytes(scenario.model, engine.tensor_parallel_size, engine.dtype),
        kv_bytes_per_token=sum(group.layers * group.token_bytes / group.shared for group in see_all),
        dtype=engine.dtype,
        max_num_seqs=engine.max_num_seqs,
    )


def _replays(runner: Runner, count: ReplicaCount) -> tuple[Replay, ...]:
    """What the resamples leave out: bursts shorter than a bin, and how long a peak lasts."""
    deployment = runner.deployment
    demand, settings = deployment.demand, deployment.scenario.plan
    if not (settings.literal_replay and isinstance(demand, TraceDemand)):
        return ()
    trace = demand.trace
    trials = [(trial.load, trial.point) for trial in count.chosen.trials if trial.point is not None]
    wanted = [
        (
            "literal",
            load,
            Experiment("literal", point.replicas, point.rate),
            trace.duration * trace.rate / point.rate,
        )
        for load, point in trials
    ]
    trial, point = count.chosen.hardest
    if trace.duration > settings.duration and trace.duration * point.rate <= MOST_REQUESTS:
        paced = Experiment("resample", point.replicas, point.rate, duration=trace.duration)
        wanted.append(("own pace", trial.load, paced, trace.duration))
    samples = runner.run("replay", [experiment for _, _, experiment, _ in wanted])
    return tuple(
        Replay(kind, load, experiment.replicas, experiment.rate, duration, sample)
        for (kind, load, experiment, duration), sample in zip(wanted, samples, strict=True)
    )


def representative(plan: Plan) -> Experiment:
    """One run of the chosen fleet at its full load: the literal trace, or the first draw of a synthetic demand."""
    deployment = plan.deployment
    settings = deployment.scenario.plan
    replicas = plan.replicas.chosen.replicas
    rate = deployment.target_rate * (1 + settings.reserve)
    if isinstance(deployment.demand, TraceDemand):
        return Experiment("literal", replicas, rate)
    return Experiment("resample", replicas, rate, duration=settings.duration)
