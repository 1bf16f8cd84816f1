"""One point of a sweep: a fleet at a rate, judged over replications."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from capsim.plan.experiment import Sample
from capsim.plan.verdict import Interval, Verdict, combine, interval, judge

LATENCIES = ("ttft", "tpot", "itl", "e2e")
PERCENTILES = ("mean", "p50", "p95", "p99")


@dataclass(frozen=True)
class GateResult:
    """A gate over replications.

    Attributes:
        name: as printed, e.g. ``ttft p95``.
        limit: seconds, share, or figure of quality.
        required: share of samples that must be inside the limit.
        observed: mean of the observed figure over replications; None where it is infinite in one of them.
        attained: share inside the limit, with its interval; None for a stated quality.
        verdict: pass, fail or undecided.
    """

    name: str
    limit: float
    required: float | None
    observed: float | None
    attained: Interval | None
    verdict: Verdict


@dataclass(frozen=True)
class Point:
    """A fleet at a rate.

    Attributes:
        replicas: size of the fleet.
        rate: requests/s offered to the fleet.
        samples: one a replication.
        gates: every gate.
        overloaded: why the fleet is overloaded, empty if it is not. Percentiles of an overloaded fleet depend on how
            long the run was.
    """

    replicas: int
    rate: float
    samples: tuple[Sample, ...]
    gates: tuple[GateResult, ...]
    overloaded: str

    @property
    def verdict(self) -> Verdict:
        """All gates at once; an overloaded fleet fails whatever a short run shows."""
        if self.overloaded:
            return Verdict.FAIL
        return combine([gate.verdict for gate in self.gates])

    @property
    def failing(self) -> tuple[str, ...]:
        """Names of the gates that do not pass."""
        return tuple(gate.name for gate in self.gates if gate.verdict is not Verdict.PASS)

    def mean(self, *keys: str) -> float | None:
        """Mean over replications of a figure of the samples; None where it does not exist in one of them."""
        return average(_figure(sample, keys) for sample in self.samples)

    def band(self, *keys: str) -> list[float | None]:
        """Mean, least and greatest of a figure over replications."""
        values = [_figure(sample, keys) for sample in self.samples]
        known = [value for value in values if value is not None]
        if len(known) < len(values) or not known:
            return [None, None, None]
        return [fmean(known), min(known), max(known)]

    def as_dict(self) -> dict[str, Any]:
        """The point as it is written to the result."""
        return {
            "replicas": self.replicas,
            "rate": self.rate,
            "rate_per_replica": self.rate / self.replicas,
            "replications": len(self.samples),
            "verdict": self.verdict.value,
            "overloaded": self.overloaded,
            "gates": [{**asdict(gate), "verdict": gate.verdict.value} for gate in self.gates],
            "attainment": self.band("goodput", "joint_attainment"),
            "goodput": self.band("goodput", "requests"),
            "goodput_output_tokens": self.band("goodput", "output_tokens"),
            "throughput": self.mean("throughput", "requests"),
            "output_tokens_per_second": self.mean("throughput", "output_tokens"),
            "error_rate": self.mean("error_rate"),
            **{
                metric: {name: self.band("user", metric, name) for name in PERCENTILES}
                for metric in LATENCIES
            },
            "running": self.mean("occupancy", "running_mean"),
            "waiting": self.mean("occupancy", "waiting_mean"),
            "blocks_max": self.mean("occupancy", "blocks_max"),
            "preemptions": self.mean("counts", "preemptions"),
            "prefix_hit_rate": self.mean("kv_cache", "hit_rate"),
            "steps_outside": self.mean("steps_outside"),
        }


def judge_point(
    replicas: int, rate: float, samples: Sequence[Sample], looks_planned: int, saturated_rate: float
) -> Point:
    """Judge a fleet at a rate from independent replications.

    Args:
        replicas: size of the fleet.
        rate: requests/s offered to the fleet.
        samples: one a replication.
        looks_planned: how often a verdict may be tried; divides the error.
        saturated_rate: requests/s that the fleet completes when it is never idle.
    """
    gates = [
        _judge_gate([sample["gates"][i] for sample in samples], looks_planned) for i in range(_gates(samples))
    ]
    return Point(replicas, rate, tuple(samples), tuple(gates), _overload(rate, samples, saturated_rate))


def _gates(samples: Sequence[Sample]) -> int:
    return len(samples[0]["gates"])


def _judge_gate(gates: Sequence[dict[str, Any]], looks_planned: int) -> GateResult:
    first = gates[0]
    observed = average(gate["observed"] for gate in gates)
    if first["attained"] is None:
        verdict = Verdict.PASS if first["passed"] else Verdict.FAIL
        return GateResult(first["name"], first["limit"], None, observed, None, verdict)
    attained = interval([gate["attained"] for gate in gates], looks_planned)
    verdict = judge(attained, first["required"])
    return GateResult(first["name"], first["limit"], first["required"], observed, attained, verdict)


def _overload(rate: float, samples: Sequence[Sample], saturated_rate: float) -> str:
    if rate >= saturated_rate:
        return f"offered {rate:.4g}/s, saturated at {saturated_rate:.4g}/s"
    growing = sum(sample["backlog_grows"] for sample in samples)
    if 2 * growing > len(samples):
        return f"the backlog grows in {growing} of {len(samples)} runs"
    return ""


def _figure(sample: Sample, keys: Sequence[str]) -> float | None:
    value: Any = sample
    for key in keys:
        value = value[key]
    return None if value is None else float(value)


def average(values: Iterable[float | None]) -> float | None:
    """Mean, None where a value is missing."""
    known = list(values)
    present = [value for value in known if value is not None]
    return fmean(present) if present and len(present) == len(known) else None
