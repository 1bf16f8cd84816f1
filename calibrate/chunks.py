"""Prefill chunks of a step, where a source knows their sums alone."""

from __future__ import annotations

from capsim.cost import Chunk


def equal_chunks(count: int, new: int, past: int) -> tuple[Chunk, ...]:
    """So many chunks of nearly the same length and past that add up to these sums."""
    return tuple(
        Chunk(
            (place + 1) * new // count - place * new // count,
            (place + 1) * past // count - place * past // count,
        )
        for place in range(count)
    )
