"""Gates: objectives held against one run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capsim.errors import BadInput
from capsim.measure.inter_token import Gaps
from capsim.measure.latency import RequestLatencies
from capsim.measure.objectives import LatencyObjective, Objectives, QualityObjective
from capsim.measure.percentile import least_count, percentiles, percentiles_in_parts

REQUEST_METRICS = ("ttft", "tpot", "e2e")


@dataclass(frozen=True)
class Gate:
    """One objective and how one run stood to it.

    Attributes:
        name: as it is printed, e.g. ``ttft p95``.
        kind: ``latency``, ``errors`` or ``quality``.
        observed: the percentile (seconds, infinite where too many requests failed, NaN where nothing has the
            metric), the share of failed requests, or the stated quality.
        limit: the most that latency or errors may be, the least that quality may be.
        attained: share of the samples within the limit; NaN for quality, which has no samples.
        required: the share that must be within; NaN for quality.
        passed: whether the gate is open.
    """

    name: str
    kind: str
    observed: float
    limit: float
    attained: float
    required: float
    passed: bool


def check_gates(
    objectives: Objectives, user: RequestLatencies, gaps: Gaps, failed: NDArray[np.bool_]
) -> tuple[Gate, ...]:
    """Hold every objective against one run.

    A latency gate passes exactly if its percentile is at most its limit, which is the same as: the share of
    samples within the limit is at least the percentile. Samples of TTFT and E2E are all requests, a failed
    one being infinite; samples of TPOT are those that have one, and the failed; samples of ITL are gaps, over
    the whole run. A gate without any sample, as for TPOT where every request asks for one token, is passed.

    Args:
        objectives: the gates.
        user: latencies as the user observes them, of the measured requests.
        gaps: between tokens, those that failed requests still owed being infinite.
        failed: which of the measured requests failed, shape (n,).

    Raises:
        BadInput: no request was measured, or an objective names an unknown metric.
    """
    if len(failed) == 0:
        raise BadInput("no request was measured, so no gate can be judged")
    gates = [_latency_gate(objective, user, gaps) for objective in objectives.latency]
    if objectives.error_rate is not None:
        gates.append(_error_gate(objectives.error_rate, failed))
    gates += [_quality_gate(objective) for objective in objectives.quality]
    return tuple(gates)


def _latency_gate(objective: LatencyObjective, user: RequestLatencies, gaps: Gaps) -> Gate:
    wanted = [objective.percentile]
    if objective.metric == "itl":
        total, within = gaps.total, gaps.within(objective.limit)
        observed = percentiles_in_parts(gaps.parts, wanted)
    elif objective.metric in REQUEST_METRICS:
        values = user.of(objective.metric)
        seconds = values[~np.isnan(values)]
        total, within = len(seconds), int(np.count_nonzero(seconds <= objective.limit))
        observed = percentiles(seconds, wanted)
    else:
        raise BadInput(f"unknown latency metric {objective.metric!r}, expected ttft, tpot, itl or e2e")
    return Gate(
        name=objective.name,
        kind="latency",
        observed=observed[0],
        limit=objective.limit,
        attained=within / total if total else 1.0,
        required=objective.percentile / 100,
        passed=total == 0 or within >= least_count(objective.percentile, total),
    )


def _error_gate(limit: float, failed: NDArray[np.bool_]) -> Gate:
    rate = float(failed.mean())
    return Gate("error rate", "errors", rate, limit, 1 - rate, 1 - limit, rate <= limit)


def _quality_gate(objective: QualityObjective) -> Gate:
    nothing = float("nan")
    passed = objective.value >= objective.minimum
    return Gate(objective.metric, "quality", objective.value, objective.minimum, nothing, nothing, passed)
