"""Microseconds of one look-up of a step cost, its caches warm."""

from __future__ import annotations

import timeit
from collections.abc import Callable

from capsim.cost import BatchShape, Chunk, StepCost

DECODE = BatchShape((), 64, 64 * 1000, squared_context=64 * 1000**2, largest_context=2500)
MIXED = DECODE._replace(chunks=(Chunk(700, 300),))
CALLS, REPEATS = 50_000, 5


def microseconds(call: Callable[[], object]) -> float:
    """The best of some repeats."""
    call()
    return min(timeit.repeat(call, number=CALLS, repeat=REPEATS)) / CALLS * 1e6


def lookups(cost: StepCost) -> dict[str, float]:
    """Of a line of pure decodes, of one such step, and of a step with a chunk beside them."""
    return {
        "line": microseconds(lambda: cost.line(DECODE)),
        "decode step": microseconds(lambda: cost.step(DECODE)),
        "mixed step": microseconds(lambda: cost.step(MIXED)),
    }
