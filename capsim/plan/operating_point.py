from __future__ import annotations

import math
from dataclasses import dataclass

from capsim.errors import Infeasible
from capsim.plan.evaluator import Evaluator
from capsim.plan.point import GateResult, Point
from capsim.plan.verdict import Verdict
from capsim.units import format_duration, format_rate, format_share

SHARES = (0.15, 0.3, 0.45, 0.6, 0.7, 0.8, 0.9, 1.0, 1.15)
"""Rates of the first sweep, as shares of the saturated rate: dense where the knee is, one beyond overload."""
LOWEST_SHARE = 1e-3
"""Below this share of the saturated rate a replica is as good as alone."""
MOST_STEPS = 16
"""Bisections: more than enough for a bracket of 0.1 % from a factor of 2."""


@dataclass(frozen=True)
class OperatingPoint:
    """The highest rate of one replica at which every gate passes, and the bracket it was found in.

    Attributes:
        passing: the point at that rate.
        failing: the lowest rate tested above it that does not pass; it fails or stays undecided.
        sweep: every rate tested, ascending.
    """

    passing: Point
    failing: Point
    sweep: tuple[Point, ...]

    @property
    def rate(self) -> float:
        """Requests/s of one replica."""
        return self.passing.rate

    @property
    def binding(self) -> tuple[str, ...]:
        """What ends the operating range: the gates that no longer pass just above it."""
        return self.failing.failing or ("throughput",)


def find_operating_point(evaluator: Evaluator, saturated_rate: float, resolution: float) -> OperatingPoint:
    """Bracket the knee in log rate between a rate that passes and one that does not.

    Args:
        evaluator: judges one replica at a rate.
        saturated_rate: requests/s of a replica that is never idle.
        resolution: the bracket's width at which the search ends, as a share of the rate.

    Raises:
        Infeasible: no rate passes, however low.
    """
    rates = [share * saturated_rate for share in SHARES]
    tested = dict(zip(rates, evaluator.points("sweep", [(1, rate) for rate in rates]), strict=True))
    for _ in range(MOST_STEPS):
        low, high = _bracket(tested)
        if high is None:  # cannot happen beyond the saturated rate, where every point is overloaded
            rate = 1.5 * max(tested)
        elif low is None:
            rate = high.rate / 4
            if rate < LOWEST_SHARE * saturated_rate:
                raise _hopeless(high)
        elif high.rate / low.rate <= 1 + resolution:
            break
        else:
            rate = math.sqrt(low.rate * high.rate)
        tested[rate] = evaluator.point("operating point", 1, rate)
    low, high = _bracket(tested)
    if low is None or high is None:
        raise Infeasible("no operating point: the sweep found no rate that passes below one that does not")
    return OperatingPoint(low, high, tuple(tested[rate] for rate in sorted(tested)))


def _bracket(tested: dict[float, Point]) -> tuple[Point | None, Point | None]:
    """The highest rate below which all pass, and the lowest that does not."""
    low = None
    for rate in sorted(tested):
        if tested[rate].verdict is not Verdict.PASS:
            return low, tested[rate]
        low = tested[rate]
    return low, None


def _hopeless(point: Point) -> Infeasible:
    missed = [gate for gate in point.gates if gate.verdict is not Verdict.PASS]
    gates = ", ".join(
        f"{gate.name} is {_value(gate, gate.observed)} against {_value(gate, gate.limit)}" for gate in missed
    )
    return Infeasible(
        f"even at {format_rate(point.rate)} one replica does not pass: {gates or 'it is overloaded'}",
        (
            f"relax {' and '.join(gate.name for gate in missed) or 'the demand'}",
            "a faster configuration: more GPUs a replica, a faster GPU, smaller precision",
        ),
    )


def _value(gate: GateResult, value: float | None) -> str:
    if value is None:
        return "infinite"
    if gate.attained is None:  # a stated quality
        return f"{value:.4g}"
    return format_share(value) if gate.name == "error rate" else format_duration(value)
