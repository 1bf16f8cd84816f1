from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capsim.units import format_share


@dataclass(frozen=True)
class PriorityMix:
    """Priorities of requests, each drawn independently of all else.

    Attributes:
        shares: (priority, share of the requests that have it); the shares sum up to 1.
    """

    shares: tuple[tuple[int, float], ...]

    def sample(self, n: int, random: np.random.Generator) -> NDArray[np.int64]:
        """Priorities of `n` requests, shape (n,)."""
        values = np.array([value for value, _ in self.shares], dtype=np.int64)
        ends = np.cumsum([share for _, share in self.shares])
        places = np.searchsorted(ends[:-1], random.random(n), side="right")
        return np.asarray(values[places], np.int64)

    def __str__(self) -> str:
        return ", ".join(f"{value} ({format_share(share)})" for value, share in self.shares)
