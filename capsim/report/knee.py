"""The curve that a plan found, as columns to draw."""

from __future__ import annotations

import math

from capsim.report import Json

Column = list[float]
"""One figure a rate, ascending in rate; NaN where it is infinite or does not exist."""


class Knee:
    """Figures of one replica against the offered rate.

    Args:
        result: as `capsim.plan.plan_result.plan_result` gives it.

    Attributes:
        gates: at the operating point.
        rates: requests/s a replica, ascending.
        replicas: size of the fleet that was swept.
        rate, goodput: the operating point, requests/s a replica.
        not_passing, verdict: the lowest rate that does not pass, and whether it fails or stays undecided.
        overloaded: the rate from which a replica is overloaded.
        bound, limit: the rate that no scheduler can exceed, and what limits it.
    """

    def __init__(self, result: Json) -> None:
        point, self._sweep = result["operating_point"], result["sweep"]
        self.gates: list[Json] = point["gates"]
        self.rates: Column = [tested["rate_per_replica"] for tested in self._sweep]
        self.replicas: int = self._sweep[0]["replicas"]
        self.rate: float = point["rate"]
        self.goodput: float = point["goodput"]
        self.not_passing: float = point["bracket"][1]
        self.verdict: str = next(each["verdict"] for each in self._sweep if each["rate"] == self.not_passing)
        drifting = (each["rate_per_replica"] for each in self._sweep if each["overloaded"])
        self.overloaded: float = min([result["saturated_rate"]["mean"], *drifting])
        self.bound: float = result["bound"]["rate"]
        self.limit: str = result["bound"]["limit"]

    @property
    def required(self) -> dict[float, list[str]]:
        """Share of the samples that must be inside, and the latency gates that want so many."""
        needs: dict[float, list[str]] = {}
        for gate in filter(_is_latency, self.gates):
            needs.setdefault(gate["required"], []).append(gate["name"])
        return needs

    def figures(self, name: str, scale: float = 1.0) -> Column:
        """A figure that has no band."""
        return [_scaled(point[name], scale) for point in self._sweep]

    def band(self, *keys: str, scale: float = 1.0) -> tuple[Column, Column, Column]:
        """Least, mean and most of a figure over the runs."""
        bands = [point[keys[0]] for point in self._sweep]
        for key in keys[1:]:
            bands = [band[key] for band in bands]
        mean, least, most = ([_scaled(band[i], scale) for band in bands] for i in range(3))
        return least, mean, most

    def observed(self, gate: str, scale: float = 1.0) -> Column:
        """What a gate judged."""
        found = ({each["name"]: each["observed"] for each in point["gates"]}[gate] for point in self._sweep)
        return [_scaled(value, scale) for value in found]

    def infinite(self, metric: str) -> Column:
        """Rates at which so many requests failed that p99 of a metric is infinite."""
        return [
            rate
            for rate, point in zip(self.rates, self._sweep, strict=True)
            if point[metric]["p99"][0] is None and point["error_rate"]
        ]


def latency_limits(gates: list[Json], metric: str) -> dict[str, float]:
    """Limit, seconds, of each percentile of a metric that is gated, e.g. ``{"p95": 0.5}``."""
    limits = {}
    for gate in gates:
        of, _, percentile = gate["name"].partition(" ")
        if _is_latency(gate) and of == metric:
            limits[percentile] = float(gate["limit"])
    return limits


def _is_latency(gate: Json) -> bool:
    return gate["required"] is not None and gate["name"] != "error rate"


def _scaled(value: float | None, scale: float) -> float:
    return math.nan if value is None else scale * value
