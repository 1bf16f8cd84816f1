"""The ``memory`` of a profile: what can be wrong with it."""

from __future__ import annotations

import re
from typing import Any

from capsim.cost.profile_memory import (
    FIGURES,
    SOURCES,
    MemoryBlock,
    MemoryFigure,
    MemoryPeaks,
    ProfileMemory,
)
from capsim.cost.profile_reader import Reader

_ORIGIN = ("tag", "source", "version")


def read_memory(reader: Reader) -> ProfileMemory:
    """The section, every fault of which is added to the reader's."""
    parts = reader.members(optional=(*FIGURES, "activations", "block"))
    if not any(part.present for part in parts.values()) and isinstance(reader.value, dict):
        reader.fault("is empty", f"any of {', '.join(parts)}")
    activations, block = parts["activations"], parts["block"]
    return ProfileMemory(
        {name: _figure(parts[name]) for name in FIGURES if parts[name].present},
        _peaks(activations) if activations.present else None,
        _block(block) if block.present else None,
    )


def _figure(reader: Reader) -> MemoryFigure:
    parts = reader.members(*_ORIGIN, "bytes")
    return MemoryFigure(parts["bytes"].count(least=0), **_origin(parts))


def _block(reader: Reader) -> MemoryBlock:
    parts = reader.members(*_ORIGIN, "tokens", "bytes")
    return MemoryBlock(parts["tokens"].count(), parts["bytes"].count(), **_origin(parts))


def _peaks(reader: Reader) -> MemoryPeaks:
    parts = reader.members(*_ORIGIN, "tokens", "sequences", "bytes")
    tokens = parts["tokens"].axis(least=1) or ()
    sequences, sizes = (_counts(parts[name], len(tokens)) for name in ("sequences", "bytes"))
    return MemoryPeaks(tokens, sequences, sizes, **_origin(parts))


def _counts(reader: Reader, length: int) -> tuple[int, ...]:
    """So many counts, in any order."""
    items = reader.items()
    if items and length and len(items) != length:
        reader.fault(f"{len(items)} values", f"{length} values, as many as the axis has")
    return tuple(item.count(least=0) for item in items)


def _origin(parts: dict[str, Reader]) -> dict[str, Any]:
    """The rules of an engine depend on its version, which must be readable."""
    source, version = parts["source"].one_of(*SOURCES), parts["version"].text()
    if version and not re.search(r"\d+\.\d+", version):
        parts["version"].fault(f"{version!r}", "a version such as '0.19.0'")
    return {"tag": parts["tag"].tag(), "source": source, "version": version}
