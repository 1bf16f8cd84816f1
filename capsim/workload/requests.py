from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capsim.workload.prefixes import Prefixes


@dataclass(frozen=True)
class Requests:
    """Requests of one run as columns, in order of arrival.

    Attributes:
        arrival: seconds from the start of the run, shape (n,), float64, not decreasing.
        prompt: prompt tokens, shape (n,), int64, each at least 1.
        output: tokens to generate, shape (n,), int64, each at least 1.
        prefixes: which leading tokens the prompts share; None: nothing is known to be shared.
        samples: sequences that each request generates from its prompt (``n``), each of `output` tokens.
        priority: smaller goes first where the engine heeds it, shape (n,), int64; None: all are alike.
    """

    arrival: NDArray[np.float64]
    prompt: NDArray[np.int64]
    output: NDArray[np.int64]
    prefixes: Prefixes | None = None
    samples: int = 1
    priority: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.arrival)
