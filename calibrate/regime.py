"""The six kinds of steps whose errors are told apart: prefill, decode or mixed, each small or large."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from capsim.cost import BatchShape
from capsim.cost.profile_tables import HeldOut

REGIMES = ("prefill", "decode", "mixed")
SIZES = ("small", "large")
LARGE_PREFILL = 1024
"""Tokens from which a step with a chunk is large: about where the matrix products of a data-centre GPU leave the
limit of its memory and reach that of its arithmetic."""
LARGE_DECODE = 32
"""Sequences from which a decode step is large: below it, the weights are most of what a step reads."""


class Kind(NamedTuple):
    """What a step's errors are counted under."""

    regime: str
    size: str


KINDS = tuple(Kind(regime, size) for regime in REGIMES for size in SIZES)


def kind_of(batch: BatchShape) -> Kind:
    """Regime and size of a step."""
    if not batch.chunks:
        return Kind("decode", SIZES[batch.decodes >= LARGE_DECODE])
    return Kind("mixed" if batch.decodes else "prefill", SIZES[tokens_of(batch) >= LARGE_PREFILL])


def tokens_of(batch: BatchShape) -> int:
    """Tokens that a step computes."""
    return batch.decodes * batch.query_tokens + sum(chunk.new for chunk in batch.chunks)


def shape_text(batch: BatchShape) -> str:
    """A step's shape as messages name it, e.g. ``prefill 512 after 0 + 64 decodes at 1,024``."""
    chunks: dict[tuple[int, int], int] = {}
    for new, past in batch.chunks:
        chunks[new, past] = chunks.get((new, past), 0) + 1
    parts = [
        f"prefill {f'{many} x ' if many > 1 else ''}{new:,} after {past:,}"
        for (new, past), many in chunks.items()
    ]
    if batch.decodes:
        noun = "decode" if batch.decodes == 1 else "decodes"
        parts.append(f"{batch.decodes:,} {noun} at {round(batch.context / batch.decodes):,}")
    return " + ".join(parts)


def errors_of(
    batches: Iterable[BatchShape], tables: Sequence[float], measured: Sequence[float]
) -> tuple[HeldOut, ...]:
    """Relative errors, (table - measured) / measured, by kind of step; kinds without a step are left out.

    Args:
        batches: the steps.
        tables: seconds of each by the tables.
        measured: seconds of each as measured, above 0.
    """
    errors: dict[Kind, list[float]] = {}
    for batch, table, seconds in zip(batches, tables, measured, strict=True):
        errors.setdefault(kind_of(batch), []).append((table - seconds) / seconds)
    return tuple(_held_out(kind, errors[kind]) for kind in KINDS if kind in errors)


def _held_out(kind: Kind, errors: Sequence[float]) -> HeldOut:
    size = np.abs(errors)
    return HeldOut(
        kind.regime,
        kind.size,
        cases=len(errors),
        median=float(np.median(size)),
        p90=float(np.quantile(size, 0.9)),
        bias=float(np.mean(errors)),
    )
