"""The inverse question: the largest demand that a given fleet serves, by the loads and drills of a plan."""

from __future__ import annotations

import math
from dataclasses import dataclass

from capsim.errors import Infeasible
from capsim.plan.evaluator import Evaluator
from capsim.plan.operating_point import LOWEST_SHARE
from capsim.plan.replicas import FleetCheck, Judge, check_fleet
from capsim.plan.verdict import Verdict
from capsim.scenario import PlanSettings

FINER = 4
"""A replica of N adds 1 / N to what a fleet serves; the bracket is so much finer that one less does not pass in it."""
FIRST_STEP = 0.06
"""From the estimate to the first demand beside it, as a share; each further step is twice as long."""
LONGEST_STEP = 4.0
DIGITS = 5
"""Significant ones of a demand, so that it can be copied into a scenario."""
MOST_STEPS = 64
"""More than any search takes whose verdicts do not contradict each other."""


@dataclass(frozen=True)
class ServedDemand:
    """What a fleet serves.

    Attributes:
        target: the largest demand that passes, per second, in the unit of the scenario.
        check: the fleet at that demand, under every load and drill.
        above: the smallest demand tried beyond it, which does not pass, and the fleet at it.
        tried: every demand, ascending, with its fleet.
    """

    target: float
    check: FleetCheck
    above: tuple[float, FleetCheck]
    tried: tuple[tuple[float, FleetCheck], ...]


def find_demand(
    evaluator: Evaluator,
    replicas: int,
    plan: PlanSettings,
    *,
    operating_rate: float,
    per_request: float,
) -> ServedDemand:
    """Bracket the largest demand in its logarithm, between one that passes and one that does not.

    As in a plan the full fleet is tried at the demand with its reserve and each drill at the demand, an undecided fleet
    does not pass, and the demand that is found is confirmed with the whole budget of replications.

    Args:
        evaluator: judges a fleet at a rate.
        replicas: size of the fleet.
        plan: reserve, drills and resolution.
        operating_rate: requests/s at which one replica passes alone.
        per_request: what a request counts in the unit of the demand: 1, or its output tokens.

    Raises:
        Infeasible: no demand passes, however small.
    """
    search = _Search(evaluator, replicas, plan, per_request)
    left = [replicas / (1 + plan.reserve), *(replicas - 1 for _ in plan.drills)]
    return search.found(operating_rate * per_request * min(left))


def refuse_lone_replica(replicas: int, plan: PlanSettings) -> None:
    """Refuse a fleet of which a drill leaves nothing.

    Raises:
        Infeasible: it serves nothing, whatever the demand.
    """
    if replicas == 1 and plan.drills:
        raise Infeasible(
            f"a fleet of one replica does not survive {', '.join(plan.drills)}: no replica is left",
            ("more replicas", "no drill: --set plan.drills=[]"),
        )


class _Search:
    """Demands of one fleet that were tried, and what came of them."""

    def __init__(self, evaluator: Evaluator, replicas: int, plan: PlanSettings, per_request: float) -> None:
        self._evaluator = evaluator
        self._replicas = replicas
        self._plan = plan
        self._per_request = per_request
        self._resolution = min(plan.resolution, 1 / (FINER * replicas))
        self._tried: dict[float, FleetCheck] = {}

    def found(self, estimate: float) -> ServedDemand:
        """The largest demand that passes, from an estimate on."""
        self._try(estimate, self._evaluator.all_pass)
        for _ in range(MOST_STEPS):
            low, high = self._bracket()
            following = self._next(low, high)
            if low is not None and high is not None and (following <= low or following >= high):
                self._try(low, self._evaluator.confirm)
                if self._tried[low].verdict is Verdict.PASS:
                    return self._answer(low, high)
            elif following < LOWEST_SHARE * estimate:
                raise Infeasible(self._hopeless(min(self._tried)), ("relax the objectives", "more replicas"))
            else:
                self._try(following, self._evaluator.all_pass)
        raise Infeasible(
            f"no demand was found for {self._replicas} replicas: their verdicts change back and forth"
        )

    def _next(self, low: float | None, high: float | None) -> float:
        """The demand to try, rounded; at or beyond an end of the bracket once that is fine enough."""
        step = min(1 + FIRST_STEP * 2 ** (len(self._tried) - 1), LONGEST_STEP)
        if high is None:
            return _rounded(max(self._tried) * step)
        if low is None:
            return _rounded(min(self._tried) / step)
        return low if high / low <= 1 + self._resolution else _rounded(math.sqrt(low * high))

    def _try(self, demand: float, judge: Judge) -> None:
        target = _rounded(demand)
        rate = target / self._per_request
        self._tried[target] = check_fleet(judge, self._replicas, rate, self._plan)

    def _bracket(self) -> tuple[float | None, float | None]:
        """The largest demand below which all pass, and the smallest that does not."""
        low = None
        for demand in sorted(self._tried):
            if self._tried[demand].verdict is not Verdict.PASS:
                return low, demand
            low = demand
        return low, None

    def _answer(self, low: float, high: float) -> ServedDemand:
        tried = tuple((demand, self._tried[demand]) for demand in sorted(self._tried))
        return ServedDemand(low, self._tried[low], (high, self._tried[high]), tried)

    def _hopeless(self, demand: float) -> str:
        trials = self._tried[demand].deciding
        reasons = "; ".join(f"{trial.name} ({trial.load}): {trial.reason}" for trial in trials)
        return f"{self._replicas} replicas do not pass even at a demand of {demand:.4g}/s: {reasons}"


def _rounded(demand: float) -> float:
    return float(f"{demand:.{DIGITS}g}")
