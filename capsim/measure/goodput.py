"""Goodput: what is served inside latency, error and quality objectives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capsim.errors import BadInput
from capsim.measure.gates import REQUEST_METRICS
from capsim.measure.latency import RequestLatencies
from capsim.measure.objectives import Objectives


@dataclass(frozen=True)
class Goodput:
    """What a run served inside its objectives.

    Attributes:
        joint_attainment: share of all measured requests that were good.
        requests: good requests per second.
        output_tokens: output tokens of good requests per second.
    """

    joint_attainment: float
    requests: float
    output_tokens: float


def good(objectives: Objectives, user: RequestLatencies) -> NDArray[np.bool_]:
    """Tell which requests were inside every latency objective that is judged per request, shape (n,).

    Of several gates on one metric the one with the highest percentile counts: the others speak of the
    distribution, not of a request. A failed request is never good; one with a single token cannot miss a TPOT
    objective. ITL gates are judged over the gaps of the whole run and do not enter here.
    """
    within = np.isfinite(user.ttft)
    for metric in REQUEST_METRICS:
        gates = [objective for objective in objectives.latency if objective.metric == metric]
        if gates:
            tail = max(gates, key=lambda objective: (objective.percentile, -objective.limit))
            within &= ~(user.of(metric) > tail.limit)
    return within


def goodput(
    objectives: Objectives, user: RequestLatencies, output: NDArray[np.int64], span: float
) -> Goodput:
    """Measure goodput: joint attainment times the rate at which requests were served.

    It is 0 where a quality objective is missed: fast answers that are not good enough are no goodput.

    Args:
        objectives: what a good request keeps to.
        user: latencies of the measured requests of one class.
        output: their output tokens, shape (n,).
        span: seconds in which they were served.

    Raises:
        BadInput: the class matched no request; that is neither 0 nor 100 %.
    """
    if len(output) == 0:
        raise BadInput("goodput of a class that matched no request")
    rows = good(objectives, user)
    worth = float(all(quality.value >= quality.minimum for quality in objectives.quality))
    return Goodput(
        joint_attainment=float(rows.mean()),
        requests=worth * float(rows.sum()) / span,
        output_tokens=worth * float(output[rows].sum()) / span,
    )
