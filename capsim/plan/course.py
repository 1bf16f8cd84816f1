"""The course of one run as plain data: what a page draws of it, of a size that does not depend on the run's length."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capsim.fleet.log import RunLog
from capsim.measure.inter_token import inter_token_gaps
from capsim.measure.latency import failed, user_latencies
from capsim.measure.leaps import leaps_since
from capsim.measure.percentile import percentiles, percentiles_in_parts
from capsim.measure.timeline import Timeline
from capsim.measure.ttft_bands import TtftBand, ttft_bands
from capsim.plan.deployment import Deployment
from capsim.plan.experiment import Experiment, Sample
from capsim.plan.heading import heading

PERCENTS = (*range(1, 100), 99.5, 99.9, 100)
"""At which percentiles distributions are kept."""
DIGITS = 6
"""Significant digits that are kept: more cannot be drawn."""

Json = dict[str, Any]


def course_result(deployment: Deployment, experiment: Experiment, log: RunLog, sample: Sample) -> Json:
    """Binned time, distributions and the parts of TTFT of one run.

    Args:
        deployment: what was simulated.
        experiment: under which load.
        log: what was recorded.
        sample: its summary, which says how many requests were cut as warm-up.
    """
    cut = sample["counts"]["cut"]
    measured = np.arange(len(log.requests.arrival)) >= cut
    timeline = asdict(Timeline.of(log))
    return {
        **heading("capsim.course"),
        "fingerprint": deployment.fingerprint,
        "seed": deployment.scenario.seed,
        "load": experiment.load,
        "replicas": experiment.replicas,
        "rate": experiment.rate or None,
        "requests": int(measured.sum()),
        "measured_from": float(log.requests.arrival[cut]),
        "pool_blocks": log.pool_blocks,
        "states": [
            {"time": change.time, "replica": change.replica, "state": change.state.name.lower()}
            for change in log.states
            if change.time > 0
        ],
        "timeline": {name: _short(values) for name, values in timeline.items()},
        "percentiles": list(PERCENTS),
        "distributions": _distributions(log, measured, sample),
        "priorities": sample["priorities"],
        "ttft_bands": [_band(band) for band in ttft_bands(log, measured)],
    }


def _band(band: TtftBand) -> Json:
    return {**asdict(band), "parts": {name: _short(value) for name, value in band.parts.items()}}


def _distributions(log: RunLog, measured: NDArray[np.bool_], sample: Sample) -> Json:
    """Users' percentiles of each metric, as the run's summary counts them; None where infinite or without samples."""
    user = user_latencies(log).only(measured)
    lost, output = failed(log)[measured], log.samples * log.requests.output[measured]
    since = sample["throughput"]["window_start"]
    leaps = leaps_since(log.leaps, since) if sample["counts"]["cut"] else log.leaps
    gaps = inter_token_gaps(leaps, log.resumed_gaps, unserved=int((output[lost] - log.samples).sum()))
    found = {
        metric: percentiles(values[~np.isnan(values)], PERCENTS)
        for metric, values in (("ttft", user.ttft), ("tpot", user.tpot), ("e2e", user.e2e))
    }
    found["itl"] = percentiles_in_parts(gaps.parts, PERCENTS)
    return {metric: _short(found[metric]) for metric in ("ttft", "tpot", "itl", "e2e")}


def _short(values: Any) -> Any:
    if isinstance(values, (np.ndarray, list)):
        return [_short(value) for value in np.asarray(values, dtype=float).tolist()]
    return float(f"{values:.{DIGITS}g}") if math.isfinite(values) else None
