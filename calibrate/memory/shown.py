"""The `memory` of a profile in print."""

from __future__ import annotations

from capsim.cost.profile_memory import MemoryBlock, MemoryFigure, MemoryPeaks, ProfileMemory
from capsim.units import format_size

Cells = tuple[str, str, str, str]


def memory_rows(memory: ProfileMemory) -> list[Cells]:
    """What, size, tag and source, a row a figure and a row a peak."""
    rows = [_row(name.replace("_", " "), figure.bytes, figure) for name, figure in memory.figures.items()]
    peaks = memory.activations
    if peaks is not None:
        rows += [
            _row(f"activations, {tokens:,} tokens, {sequences:,} sequences", size, peaks)
            for tokens, sequences, size in zip(peaks.tokens, peaks.sequences, peaks.bytes, strict=True)
        ]
    if memory.block is not None:
        rows.append(_row(f"KV block of {memory.block.tokens:,} tokens", memory.block.bytes, memory.block))
    return rows


def _row(name: str, size: int, origin: MemoryFigure | MemoryPeaks | MemoryBlock) -> Cells:
    return name, format_size(size), origin.tag, f"{origin.source}, {origin.version}"
