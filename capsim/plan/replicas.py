"""The replica count: a first estimate by formula, then the smallest fleet that passes in simulation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from capsim.errors import Infeasible
from capsim.plan.evaluator import Evaluator
from capsim.plan.point import Point
from capsim.plan.verdict import Verdict, combine
from capsim.scenario import PlanSettings


@dataclass(frozen=True)
class Trial:
    """One load or drill of a fleet.

    Attributes:
        name: ``full fleet`` or the drill.
        load: what it stands for, one phrase.
        point: the fleet that is left, at the rate of that load; None if no replica is left.
    """

    name: str
    load: str
    point: Point | None

    @property
    def verdict(self) -> Verdict:
        """Of the point; a fleet without a replica fails."""
        return Verdict.FAIL if self.point is None else self.point.verdict

    @property
    def reason(self) -> str:
        """Why it does not pass, empty if it does."""
        if self.point is None:
            return "no replica is left"
        if self.verdict is Verdict.PASS:
            return ""
        gates = ", ".join(self.point.failing)
        if not self.point.overloaded:
            return gates
        return f"{gates} (overloaded)" if gates else "overloaded, though all gates pass in these runs"


@dataclass(frozen=True)
class FleetCheck:
    """A fleet size under every load and drill.

    Attributes:
        replicas: size of the whole fleet.
        trials: the full fleet first, then each drill.
    """

    replicas: int
    trials: tuple[Trial, ...]

    @property
    def verdict(self) -> Verdict:
        """All trials must pass."""
        return combine([trial.verdict for trial in self.trials])

    @property
    def hardest(self) -> tuple[Trial, Point]:
        """The trial that asks most of each replica that is left, and its point."""
        points = [(trial, trial.point) for trial in self.trials if trial.point is not None]
        return max(points, key=lambda pair: pair[1].rate / pair[1].replicas)

    @property
    def deciding(self) -> tuple[Trial, ...]:
        """The trials that do not pass."""
        return tuple(trial for trial in self.trials if trial.verdict is not Verdict.PASS)


@dataclass(frozen=True)
class ReplicaCount:
    """The answer.

    Attributes:
        estimate: ``ceil(target / goodput per replica * (1 + reserve))``.
        chosen: the smallest fleet that passes.
        below: the fleet of one less, which fails or stays undecided; None if one replica is enough.
        checks: every fleet tried, by size.
    """

    estimate: int
    chosen: FleetCheck
    below: FleetCheck | None
    checks: tuple[FleetCheck, ...]


def first_estimate(target: float, goodput: float, reserve: float) -> int:
    """``ceil(target / goodput * (1 + reserve))``, target and goodput in one unit per second."""
    return max(1, math.ceil(target / goodput * (1 + reserve) - 1e-9))


def find_replicas(evaluator: Evaluator, plan: PlanSettings, *, estimate: int, target: float) -> ReplicaCount:
    """Search up and down from the estimate for the smallest fleet that passes.

    The full fleet is tried at the target with its reserve, each drill at the target. An undecided fleet does not
    pass. The fleet that is chosen is confirmed with the whole budget of replications.

    Args:
        evaluator: judges a fleet at a rate.
        plan: reserve, drills and largest fleet.
        estimate: where to begin.
        target: requests/s.

    Raises:
        Infeasible: no fleet up to the largest passes.
    """
    most = plan.max_replicas
    checks: dict[int, FleetCheck] = {}

    def passes(replicas: int, judge: Judge = evaluator.all_pass) -> bool:
        if replicas not in checks or judge != evaluator.all_pass:
            checks[replicas] = check_fleet(judge, replicas, target, plan)
        return checks[replicas].verdict is Verdict.PASS

    def larger(replicas: int, step: int) -> int:
        if replicas >= most:
            reasons = "; ".join(f"{trial.load}: {trial.reason}" for trial in checks[replicas].deciding)
            raise Infeasible(
                f"no fleet of up to {most} replicas passes: {reasons}",
                ("raise plan.max_replicas", "relax the objectives or the demand"),
            )
        return min(most, replicas + step)

    replicas = min(estimate, most)
    while not passes(replicas):
        replicas = larger(replicas, max(1, replicas // 16))
    while replicas > 1 and passes(replicas - 1):
        replicas -= 1
    while not passes(replicas, evaluator.confirm):
        replicas = larger(replicas, 1)
    return ReplicaCount(
        estimate=estimate,
        chosen=checks[replicas],
        below=checks.get(replicas - 1),
        checks=tuple(checks[size] for size in sorted(checks)),
    )


Judge = Callable[[str, Sequence[tuple[int, float]]], list[Point]]
"""`Evaluator.all_pass` or `Evaluator.confirm`."""


def check_fleet(judge: Judge, replicas: int, target: float, plan: PlanSettings) -> FleetCheck:
    """Try a fleet at the target with its reserve, and under each drill at the target."""
    full = target * (1 + plan.reserve)
    loads = [("full fleet", f"{replicas} replicas at {full:.4g}/s", replicas, full)]
    loads += [
        (drill, f"{replicas - 1} of {replicas} replicas at {target:.4g}/s", replicas - 1, target)
        for drill in plan.drills
    ]
    points = iter(judge(f"fleet of {replicas}", [(size, rate) for _, _, size, rate in loads if size > 0]))
    return FleetCheck(
        replicas,
        tuple(Trial(name, load, next(points) if size > 0 else None) for name, load, size, _ in loads),
    )
