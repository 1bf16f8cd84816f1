from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np

from capsim.memory.weights import weight_bytes
from capsim.plan.baseline import Alone, baseline
from capsim.plan.bound import Bound, bound
from capsim.plan.deployment import SAMPLE, Deployment, deploy
from capsim.plan.evaluator import Evaluator
from capsim.plan.experiment import Experiment, Sample, saturation
from capsim.plan.ledger import Ledger
from capsim.plan.operating_point import OperatingPoint, find_operating_point
from capsim.plan.progress import Progress, Silence
from capsim.plan.replicas import ReplicaCount, check_fleet, find_replicas, first_estimate
from capsim.plan.robustness import Slowdown, slowdowns
from capsim.plan.runner import Runner
from capsim.plan.served_demand import ServedDemand, find_demand, refuse_lone_replica
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
        served: where the fleet was given and the demand was asked for, how that was found; None: the other way round.
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
    served: ServedDemand | None = None


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
    search = _begin(deployment, jobs, ledger, progress)
    settings = deployment.scenario.plan
    count = find_replicas(
        search.evaluator,
        estimate=first_estimate(deployment.target_rate, search.goodput, settings.reserve),
        target=deployment.target_rate,
        reserve=settings.reserve,
        drills=settings.drills,
        max_replicas=settings.max_replicas,
    )
    return _plan(search, deployment, count)


def make_inverse_plan(
    deployment: Deployment,
    replicas: int,
    *,
    jobs: int = 1,
    ledger: Ledger | None = None,
    progress: Progress | None = None,
) -> Plan:
    """From a fleet to the demand that it serves: the plan of that demand, whose answer is the fleet.

    Args:
        deployment: what is planned; the demand's target plays no part.
        replicas: size of the fleet.
        jobs: processes; the result does not depend on it.
        ledger: finished experiments of an earlier, interrupted run.
        progress: told of each experiment.

    Raises:
        BadInput: the scenario's validation is none that can be read.
        Infeasible: no rate passes for one replica, or no demand for the fleet.
    """
    refuse_lone_replica(replicas, deployment.scenario.plan)
    search = _begin(deployment, jobs, ledger, progress)
    settings = deployment.scenario.plan
    served = find_demand(
        search.evaluator,
        replicas,
        settings,
        operating_rate=search.point.rate,
        per_request=deployment.scenario.demand.target / deployment.target_rate,
    )
    planned = _with_target(deployment, served.target)
    judge, target = search.evaluator.all_pass, planned.target_rate
    below = (
        check_fleet(judge, replicas - 1, target, settings.reserve, settings.drills) if replicas > 1 else None
    )
    count = ReplicaCount(
        estimate=first_estimate(target, search.goodput, settings.reserve),
        chosen=served.check,
        below=below,
        checks=tuple(check for check in (below, served.check) if check is not None),
    )
    return _plan(search, planned, count, served)


@dataclass(frozen=True)
class _Search:
    """What both questions begin with: one replica, alone and up to its operating point."""

    runner: Runner
    jobs: int
    ledger: Ledger
    progress: Progress
    evaluator: Evaluator
    alone: tuple[Alone, ...]
    saturated: tuple[float, ...]
    point: OperatingPoint
    validation: ValidationRecord | None

    @property
    def goodput(self) -> float:
        """Requests/s of one replica inside all objectives, at its operating point."""
        return self.point.passing.mean("goodput", "requests") or self.point.rate


def _begin(deployment: Deployment, jobs: int, ledger: Ledger | None, progress: Progress | None) -> _Search:
    validation = validation_of(deployment.scenario)
    ledger = Ledger(None) if ledger is None else ledger
    progress = progress or Silence()
    runner = Runner(deployment, jobs, ledger, progress)
    alone = baseline(deployment)
    saturated = saturated_rates(runner)
    evaluator = Evaluator(runner, fmean(saturated))
    point = find_operating_point(evaluator, fmean(saturated), deployment.scenario.plan.resolution)
    return _Search(runner, jobs, ledger, progress, evaluator, alone, saturated, point, validation)


def _plan(
    search: _Search, deployment: Deployment, count: ReplicaCount, served: ServedDemand | None = None
) -> Plan:
    """The plan of a fleet that was found, with what is asked of it beyond its verdicts."""
    return Plan(
        deployment=deployment,
        replicas=count,
        operating_point=search.point,
        goodput=search.goodput,
        saturated_rates=search.saturated,
        baseline=search.alone,
        bound=hand_bound(deployment),
        slowdowns=slowdowns(
            deployment,
            count.chosen.replicas,
            fmean(search.saturated),
            jobs=search.jobs,
            ledger=search.ledger,
            progress=search.progress,
            drills=deployment.scenario.plan.drills,
        ),
        replays=_replays(search.runner, count),
        validation=search.validation,
        served=served,
    )


def _with_target(deployment: Deployment, target: float) -> Deployment:
    """The same deployment for another demand, in the scenario's unit."""
    scenario = deployment.scenario
    return deploy(replace(scenario, demand=replace(scenario.demand, target=target)))


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
