from __future__ import annotations

from collections.abc import Sequence

from capsim.plan.experiment import Experiment
from capsim.plan.point import Point, judge_point
from capsim.plan.runner import Runner
from capsim.plan.verdict import Verdict, looks


class Evaluator:
    """Judges fleets at rates, with as many replications as a verdict takes and no more than the budget.

    Args:
        runner: performs the experiments.
        saturated_rate: requests/s of one replica that is never idle.
        budget: most replications of one point; the scenario's by default.
    """

    def __init__(self, runner: Runner, saturated_rate: float, budget: int | None = None) -> None:
        self._runner = runner
        self._saturated_rate = saturated_rate
        plan = runner.deployment.scenario.plan
        self._duration = plan.duration
        self._looks = looks(plan.replications if budget is None else budget)
        self._points: dict[tuple[int, float], Point] = {}

    def points(self, stage: str, wanted: Sequence[tuple[int, float]]) -> list[Point]:
        """Judge (replicas, rate) pairs; those still undecided get more replications, all together."""
        return self._points_until(stage, wanted, ())

    def all_pass(self, stage: str, wanted: Sequence[tuple[int, float]]) -> list[Point]:
        """As `points`, where all must pass: once one has failed the others get no more replications."""
        return self._points_until(stage, wanted, (Verdict.FAIL,))

    def _points_until(
        self, stage: str, wanted: Sequence[tuple[int, float]], enough: tuple[Verdict, ...]
    ) -> list[Point]:
        for replications in self._looks:
            open_ = [pair for pair in dict.fromkeys(wanted) if self._is_open(pair, replications)]
            self._judge(stage, open_, replications)
            if any(self._points[pair].verdict in enough for pair in wanted):
                break
        return [self._points[pair] for pair in wanted]

    def _is_open(self, pair: tuple[int, float], replications: int) -> bool:
        """Whether so many replications may tell more of a pair than is known (an earlier call may have left it)."""
        point = self._points.get(pair)
        return point is None or (point.verdict is Verdict.UNDECIDED and len(point.samples) < replications)

    def point(self, stage: str, replicas: int, rate: float) -> Point:
        """Judge one fleet at one rate."""
        return self.points(stage, [(replicas, rate)])[0]

    def confirm(self, stage: str, wanted: Sequence[tuple[int, float]]) -> list[Point]:
        """Judge (replicas, rate) pairs with all replications of the budget, whatever fewer have shown."""
        self._judge(stage, list(dict.fromkeys(wanted)), self._looks[-1])
        return [self._points[pair] for pair in wanted]

    def _judge(self, stage: str, pairs: Sequence[tuple[int, float]], replications: int) -> None:
        experiments = [
            Experiment("resample", replicas, rate, replication, self._duration)
            for replicas, rate in pairs
            for replication in range(replications)
        ]
        samples = self._runner.run(stage, experiments)
        for i, (replicas, rate) in enumerate(pairs):
            own = samples[i * replications : (i + 1) * replications]
            saturated = replicas * self._saturated_rate
            self._points[replicas, rate] = judge_point(replicas, rate, own, len(self._looks), saturated)
