from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import fmean

from capsim.plan.baseline import Alone, baseline
from capsim.plan.bound import Bound, bound
from capsim.plan.deployment import Deployment, deploy
from capsim.plan.evaluator import Evaluator
from capsim.plan.experiment import Experiment
from capsim.plan.operating_point import OperatingPoint, find_operating_point
from capsim.plan.replay import Replay, replays
from capsim.plan.replicas import ReplicaCount, check_fleet, find_replicas, first_estimate
from capsim.plan.robustness import Slowdown, slowdowns
from capsim.plan.runner import Runner
from capsim.plan.saturated_rates import saturated_rates
from capsim.plan.served_demand import ServedDemand, find_demand, refuse_lone_replica
from capsim.plan.validated import ValidationRecord, validation_of
from capsim.workload.demand import TraceDemand


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


def make_plan(runner: Runner) -> Plan:
    """From a deployment to its replica count.

    Args:
        runner: of the deployment that is planned; the result does not depend on its processes.

    Raises:
        BadInput: the scenario's validation is none that can be read.
        Infeasible: no rate passes for one replica, or no fleet passes at the target.
    """
    replica = _Replica.of(runner)
    deployment, settings = runner.deployment, runner.deployment.scenario.plan
    count = find_replicas(
        replica.evaluator,
        settings,
        estimate=first_estimate(deployment.target_rate, replica.goodput, settings.reserve),
        target=deployment.target_rate,
    )
    return _plan(replica, deployment, count)


def make_inverse_plan(runner: Runner, replicas: int) -> Plan:
    """From a fleet to the demand that it serves: the plan of that demand, whose answer is the fleet.

    Args:
        runner: as of `make_plan`; the demand's target plays no part.
        replicas: size of the fleet.

    Raises:
        BadInput: the scenario's validation is none that can be read.
        Infeasible: no rate passes for one replica, or no demand for the fleet.
    """
    deployment, settings = runner.deployment, runner.deployment.scenario.plan
    refuse_lone_replica(replicas, settings)
    replica = _Replica.of(runner)
    served = find_demand(
        replica.evaluator,
        replicas,
        settings,
        operating_rate=replica.point.rate,
        per_request=deployment.scenario.demand.target / deployment.target_rate,
    )
    planned = _with_target(deployment, served.target)
    judge, target = replica.evaluator.all_pass, planned.target_rate
    below = check_fleet(judge, replicas - 1, target, settings) if replicas > 1 else None
    count = ReplicaCount(
        estimate=first_estimate(target, replica.goodput, settings.reserve),
        chosen=served.check,
        below=below,
        checks=tuple(check for check in (below, served.check) if check is not None),
    )
    return _plan(replica, planned, count, served)


@dataclass(frozen=True)
class _Replica:
    """What both questions begin with: one replica, alone and up to its operating point."""

    runner: Runner
    validation: ValidationRecord | None
    alone: tuple[Alone, ...]
    saturated: tuple[float, ...]
    evaluator: Evaluator
    point: OperatingPoint

    @classmethod
    def of(cls, runner: Runner) -> _Replica:
        scenario = runner.deployment.scenario
        validation = validation_of(scenario)  # before anything is simulated: it may be none that can be read
        alone, saturated = baseline(runner.deployment), saturated_rates(runner)
        evaluator = Evaluator(runner, fmean(saturated))
        point = find_operating_point(evaluator, fmean(saturated), scenario.plan.resolution)
        return cls(runner, validation, alone, saturated, evaluator, point)

    @property
    def goodput(self) -> float:
        """Requests/s inside all objectives, at the operating point."""
        return self.point.passing.mean("goodput", "requests") or self.point.rate


def _plan(
    replica: _Replica, deployment: Deployment, count: ReplicaCount, served: ServedDemand | None = None
) -> Plan:
    """The plan of a fleet that was found, with what is asked of it beyond its verdicts."""
    return Plan(
        deployment=deployment,
        replicas=count,
        operating_point=replica.point,
        goodput=replica.goodput,
        saturated_rates=replica.saturated,
        baseline=replica.alone,
        bound=bound(deployment),
        slowdowns=slowdowns(replica.runner.of(deployment), count.chosen.replicas, fmean(replica.saturated)),
        replays=replays(replica.runner, count),
        validation=replica.validation,
        served=served,
    )


def _with_target(deployment: Deployment, target: float) -> Deployment:
    """The same deployment for another demand, in the scenario's unit."""
    scenario = deployment.scenario
    return deploy(replace(scenario, demand=replace(scenario.demand, target=target)))


def representative(plan: Plan) -> Experiment:
    """One run of the chosen fleet at its full load: the literal trace, or the first draw of a synthetic demand."""
    deployment = plan.deployment
    settings = deployment.scenario.plan
    replicas = plan.replicas.chosen.replicas
    rate = deployment.target_rate * (1 + settings.reserve)
    if isinstance(deployment.demand, TraceDemand):
        return Experiment("literal", replicas, rate)
    return Experiment("resample", replicas, rate, duration=settings.duration)
