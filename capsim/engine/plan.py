from __future__ import annotations

from collections.abc import Sequence as Many
from typing import NamedTuple

from capsim.cost.shape import Chunk
from capsim.engine.sequence import Sequence


class Plan(NamedTuple):
    """A batch, and for how many steps this choice stays the same.

    Every decoding sequence is part of it; an empty plan (0 steps) means that there is nothing to do.

    Attributes:
        chunks: prompt tokens to compute.
        sequences: the sequences that compute them, one a chunk.
        steps: how long the plan holds if nothing comes from outside; 1 is always right.
        growth: KV blocks that the decodes take in the first step.
    """

    chunks: Many[Chunk]
    sequences: Many[Sequence]
    steps: int
    growth: int
