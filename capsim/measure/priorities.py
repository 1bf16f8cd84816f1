from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capsim.fleet.log import RunLog
from capsim.measure.latency import user_latencies
from capsim.measure.percentile import Distribution


@dataclass(frozen=True)
class PriorityLatency:
    """What users of one priority saw, seconds; a failed request counts as infinite in percentiles.

    Attributes:
        priority: the smaller went first, where the engine heeded it.
        ttft, tpot, e2e: of the measured requests that have it.
        preemptions: how often their KV was taken away.
    """

    priority: int
    ttft: Distribution
    tpot: Distribution
    e2e: Distribution
    preemptions: int


def by_priority(log: RunLog, measured: NDArray[np.bool_]) -> tuple[PriorityLatency, ...]:
    """Split the measured requests, shape (n,), by priority, the smallest first; empty where all have the same."""
    requests = log.requests
    values = np.unique(requests.priority[measured]).tolist()
    if len(values) < 2:
        return ()
    user = user_latencies(log)
    classes = []
    for value in values:
        rows = measured & (requests.priority == value)
        latencies = user.only(rows)
        classes.append(
            PriorityLatency(
                priority=value,
                ttft=Distribution.of(latencies.ttft),
                tpot=Distribution.of(latencies.tpot),
                e2e=Distribution.of(latencies.e2e),
                preemptions=int(requests.preemptions[rows].sum()),
            )
        )
    return tuple(classes)
