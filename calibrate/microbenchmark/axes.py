"""Counts along the axes of the tables: dense where kernels step, coarse where they are smooth."""

from __future__ import annotations

import math
from dataclasses import dataclass

ALIGNMENT = 8
"""Token counts whose multiples matrix products may prefer: 16 bytes of 16-bit numbers."""
SMALLEST_PAST = 256
"""Tokens of the first past above 0; less has no weight in a step."""
SMALLEST_CONTEXT = 64


@dataclass(frozen=True)
class Density:
    """How many counts an axis has.

    Attributes:
        name: for the plan's print.
        tile: tokens between the counts of a matrix product up to 512; 0: powers of two only.
        growth: from one count to the next beyond 512.
        new_ratio: between chunk lengths, over which attention is a square: a line through two counts is 3 % off at
            most where they are the root of 2 apart, and 12 % where they are 2 apart.
        ratio: between the counts of attention's other axes, over which it is nearly a line.
        past_ratio: between those of the past.
        odd: counts off the alignment stand beside the aligned ones at this ratio of their own.
        random_steps: batches of whole steps that the fit never sees.
        held_out: shapes of attention that the fit never sees, a regime.
    """

    name: str
    tile: int
    growth: float
    new_ratio: float
    ratio: float
    past_ratio: float
    odd: float
    random_steps: int
    held_out: int


DENSITIES = (
    Density("full", 16, 1.25, math.sqrt(2), 2.0, 2.0, 1.5, 48, 24),
    Density("medium", 32, 1.5, math.sqrt(2), 2.0, 4.0, 2.0, 32, 16),
    Density("coarse", 0, 2.0, 2.0, 2.0, 4.0, 4.0, 24, 10),
    Density("sparse", 0, 4.0, 2.0, 4.0, 8.0, 8.0, 16, 8),
)
"""From the one that takes longest to the one that takes least."""


def doubling(first: int, last: int, ratio: float = 2.0) -> tuple[int, ...]:
    """Counts `ratio` apart from `first`, and `last`; at least two where `last` is above `first`."""
    counts = {last}
    value = float(first)
    while value < last / ratio**0.5:
        counts.add(round(value))
        value *= ratio
    return tuple(sorted({first, *counts} if first <= last else counts))


def tile_counts(most: int, density: Density) -> tuple[int, ...]:
    """Counts of a matrix product: 1, 2, 4, ..., every tile up to 512, and coarser up to `most`, aligned beyond 8."""
    counts = {1, most, *(count for count in (2, 4, 8, 16, 32, 64, 128, 256, 512) if count < most)}
    if density.tile:
        counts |= set(range(density.tile, min(512, most) + 1, density.tile))
    value = 512.0 * density.growth
    while value < most / density.growth**0.5:
        counts.add(round(value / 64) * 64)
        value *= density.growth
    return tuple(sorted(counts))


def odd_counts(most: int, density: Density) -> tuple[int, ...]:
    """Counts that are multiples of nothing: one more than an aligned one, where a new tile begins."""
    edges = (round(count / 16) * 16 for count in doubling(16, most, density.odd))
    return tuple(sorted({edge + 1 for edge in edges if edge + 1 < most}))


def graph_sizes(most: int) -> tuple[int, ...]:
    """Batch sizes that vLLM captures as CUDA graphs when it is left to choose, up to `most` (at most 512).

    Source: vllm/config/vllm.py, ``_set_cudagraph_sizes`` of vLLM 0.24: 1, 2, 4, multiples of 8 below 256, then of 16.
    """
    last = min(512, most)
    sizes = [size for size in (1, 2, 4) if size <= last]
    return (*sizes, *range(8, min(256, last + 1), 8), *range(256, last + 1, 16))
