"""The search for the fleet, on a stub that passes where it is told to."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from capsim.errors import Infeasible
from capsim.plan.evaluator import Evaluator
from capsim.plan.point import Point
from capsim.plan.replicas import ReplicaCount, Trial, find_replicas, first_estimate
from capsim.plan.verdict import Verdict
from capsim.scenario import PlanSettings


@dataclass(frozen=True)
class StubPoint(Point):
    stub: Verdict = Verdict.PASS

    @property
    def verdict(self) -> Verdict:
        return self.stub


@dataclass
class StubEvaluator(Evaluator):
    """A fleet passes if each replica gets at most `limit` requests/s, is undecided up to `grey`, else fails."""

    limit: float
    grey: float = 0.0
    asked: list[tuple[int, float]] = field(default_factory=list)
    unconfirmed: tuple[int, float] = (0, 0.0)

    def points(self, stage: str, wanted: object) -> list[Point]:  # noqa: ARG002
        assert isinstance(wanted, list)
        self.asked += wanted
        return [self._stub(replicas, rate) for replicas, rate in wanted]

    def all_pass(self, stage: str, wanted: object) -> list[Point]:
        return self.points(stage, wanted)

    def confirm(self, stage: str, wanted: object) -> list[Point]:
        points = self.points(stage, wanted)
        return [
            StubPoint(p.replicas, p.rate, (), (), "", Verdict.UNDECIDED)
            if (p.replicas, p.rate) == self.unconfirmed
            else p
            for p in points
        ]

    def _stub(self, replicas: int, rate: float) -> Point:
        load = rate / replicas
        verdict = Verdict.FAIL
        if load <= self.limit:
            verdict = Verdict.PASS
        elif load <= self.grey:
            verdict = Verdict.UNDECIDED
        return StubPoint(replicas, rate, (), (), "", verdict)


def search(
    evaluator: StubEvaluator, estimate: int, drills: tuple[str, ...] = ("replica_missing",)
) -> ReplicaCount:
    plan = PlanSettings(0.2, drills, 600.0, 8, max_replicas=64, resolution=0.03, literal_replay=False)
    return find_replicas(evaluator, plan, estimate=estimate, target=100.0)


def test_the_formula() -> None:
    assert first_estimate(80, 13.8, 0.2) == 7
    assert first_estimate(100, 10, 0.2) == 12  # exactly 12, not 13 by rounding
    assert first_estimate(1, 10, 0) == 1


@pytest.mark.parametrize("estimate", [1, 5, 12, 13, 30, 64, 500])
def test_the_smallest_fleet_is_found_from_anywhere(estimate: int) -> None:
    found = search(StubEvaluator(limit=10.0), estimate)
    assert found.chosen.replicas == 12
    assert found.below is not None
    assert found.below.verdict is Verdict.FAIL


def test_the_drill_may_decide() -> None:
    """120/s over n or 100/s over n - 1: for a small fleet the missing replica weighs more than the reserve."""
    found = search(StubEvaluator(limit=40.0), 3)
    assert found.chosen.replicas == 4
    assert found.below is not None
    assert [trial.name for trial in found.below.deciding] == ["replica_missing"]
    assert search(StubEvaluator(limit=40.0), 3, drills=()).chosen.replicas == 3


def test_one_replica_cannot_lose_one() -> None:
    found = search(StubEvaluator(limit=1000.0), 1)
    assert found.chosen.replicas == 2
    assert found.below is not None
    assert found.below.deciding[0].reason == "no replica is left"
    assert search(StubEvaluator(limit=1000.0), 1, drills=()).below is None


def test_undecided_does_not_pass() -> None:
    found = search(StubEvaluator(limit=10.0, grey=11.0), 12)
    assert found.chosen.replicas == 12
    assert found.below is not None
    assert found.below.verdict is Verdict.UNDECIDED


def test_no_fleet_passes() -> None:
    with pytest.raises(Infeasible, match="no fleet of up to 64 replicas passes"):
        search(StubEvaluator(limit=1.0), 3)


def test_both_loads_are_tried() -> None:
    evaluator = StubEvaluator(limit=10.0)
    search(evaluator, 12)
    assert (12, 120.0) in evaluator.asked
    assert (11, 100.0) in evaluator.asked


def test_a_fleet_that_is_not_confirmed_is_not_chosen() -> None:
    """Few replications may decide by luck; the whole budget has the last word."""
    found = search(StubEvaluator(limit=10.0, unconfirmed=(12, 120.0)), 12)
    assert found.chosen.replicas == 13
    assert found.below is not None
    assert found.below.verdict is Verdict.UNDECIDED


def test_a_fleet_that_is_overloaded_with_every_gate_open_fails_by_that() -> None:
    point = StubPoint(3, 30.0, (), (), "the backlog grows", Verdict.FAIL)
    assert (
        Trial("full fleet", "3 replicas at 30/s", point).reason
        == "overloaded, though all gates pass in these runs"
    )
