from __future__ import annotations

from collections.abc import Sequence as Many
from typing import NamedTuple

from capsim.engine.sequence import Sequence


class Plan(NamedTuple):
    """A batch, and for how many steps this choice stays the same.

    Every decoding sequence is part of it; an empty plan (0 steps) means that there is nothing to do.

    Attributes:
        chunks: sequences that compute prompt tokens, each with how many.
        steps: how long the plan holds if nothing comes from outside; 1 is always right.

    """

    chunks: Many[tuple[Sequence, int]]
    steps: int
