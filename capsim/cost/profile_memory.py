"""What a rank's memory was measured to hold, as a profile states it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

SOURCES = ("run", "engine", "log")
"""Who measured: ``capsim calibrate run``, capsim on an engine that it started, or an engine in its log."""
FIGURES = ("total", "weights", "non_torch", "graphs", "estimated_graphs")


@dataclass(frozen=True)
class MemoryFigure:
    """Bytes of a rank.

    Attributes:
        bytes: the figure.
        tag: ``measured``, ``fitted``, ``derived`` or ``assumed``.
        source: one of `SOURCES`.
        version: of the engine that was measured, or of torch.
    """

    bytes: int
    tag: str
    source: str
    version: str


@dataclass(frozen=True)
class MemoryBlock:
    """A block of the KV cache: its tokens, its bytes on one rank, and the rest as in `MemoryFigure`."""

    tokens: int
    bytes: int
    tag: str
    source: str
    version: str


@dataclass(frozen=True)
class MemoryPeaks:
    """Activations at their highest, by the batch.

    Attributes:
        tokens: of the batch, increasing.
        sequences: of the batch, most at once; as many.
        bytes: of a rank; as many.
        tag, source, version: as in `MemoryFigure`.
    """

    tokens: tuple[int, ...]
    sequences: tuple[int, ...]
    bytes: tuple[int, ...]
    tag: str
    source: str
    version: str


@dataclass(frozen=True)
class ProfileMemory:
    """The ``memory`` of a profile.

    Attributes:
        figures: by the names in `FIGURES`; those that were measured.
        activations: None where they were not measured.
        block: of the KV cache, None where it is not known.
    """

    figures: Mapping[str, MemoryFigure]
    activations: MemoryPeaks | None = None
    block: MemoryBlock | None = None
