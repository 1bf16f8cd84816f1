from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LatencyObjective:
    """`percentile` of a latency metric stays at or below `limit` seconds.

    Attributes:
        metric: ``ttft``, ``tpot``, ``itl`` or ``e2e``, as the user observes it.
        percentile: in percent, above 0 and at most 100.
        limit: seconds, above 0.
    """

    metric: str
    percentile: float
    limit: float

    @property
    def name(self) -> str:
        """The gate as it is printed, e.g. ``ttft p95``."""
        return f"{self.metric} p{self.percentile:g}"


@dataclass(frozen=True)
class QualityObjective:
    """A figure of quality that the user states for the configuration, and the least that will do."""

    metric: str
    value: float
    minimum: float


@dataclass(frozen=True)
class Objectives:
    """Every gate that must pass at once.

    Attributes:
        latency: latency gates.
        error_rate: largest share of requests that may fail, be rejected or time out; None: no gate.
        quality: quality gates.
    """

    latency: tuple[LatencyObjective, ...]
    error_rate: float | None = None
    quality: tuple[QualityObjective, ...] = ()
