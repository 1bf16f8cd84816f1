from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

CONFIDENCE = 0.999
"""A correct engine misses one interval in 1,000; with fixed seeds it passes or fails for good."""


@dataclass(frozen=True)
class Interval:
    """Two-sided confidence interval of a mean, from independent replications and Student's t."""

    mean: float
    half_width: float

    @classmethod
    def of(cls, replications: Sequence[float]) -> Interval:
        """From one figure a replication, shape (r,); at least 2."""
        values = np.asarray(replications, float)
        quantile = stats.t.ppf(0.5 + CONFIDENCE / 2, len(values) - 1)
        return cls(float(values.mean()), float(quantile * values.std(ddof=1) / np.sqrt(len(values))))

    def contains(self, value: float, bias: float = 0.0) -> bool:
        """Whether the value lies inside, the mean being known to be off by at most `bias`."""
        return abs(self.mean - value) <= self.half_width + bias
