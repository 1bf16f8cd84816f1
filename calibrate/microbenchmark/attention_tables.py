"""From rows of one layer's attention to a profile's tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from calibrate.curves import reaching_prefill
from calibrate.draft import Attention, Grid
from calibrate.microbenchmark.case import ATTENTION, Batch
from calibrate.microbenchmark.row import Row
from calibrate.monotone import monotone
from calibrate.table import hole_text, holes, pivot
from capsim.errors import BadInput, Fault

Floats = NDArray[np.float64]

MOST_HOLES = 0.5
"""Share of a grid that may be filled: what no sequence is long enough for and no memory holds is a triangle of it."""
RATIO_EDGES = (1.0, 1.25, 2.0, 3.25)
"""From which ratio of longest to mean context on an alpha holds; the measured ones lie inside the classes."""
LEAST_CONTRAST = 1.05
"""Alpha is known only where all at the longest take so many times as long as all at the mean."""


def attention_of(source: str, rows: Sequence[Row], times: int) -> tuple[Attention, list[str]]:
    """The four tables, and notes on what was moved and filled.

    Raises:
        BadInput: a table has more holes than a triangle, or too few counts.
    """
    found = {
        name: [row for row in rows if row.case.kind == ATTENTION and row.case.name == name and row.sample]
        for name in ("prefill", "decode", "mixed", "skew")
    }
    prefill, prefill_note = _prefill(source, found["prefill"])
    decode, decode_note = _decode(source, found["decode"])
    mixed, mixed_note = _mixed(found["mixed"], prefill, decode)
    skew, skew_note = _skew(found["skew"], decode)
    attention = Attention(times, reaching_prefill(prefill), decode, mixed, skew)
    return attention, [prefill_note, decode_note, mixed_note, skew_note]


def _prefill(source: str, rows: Sequence[Row]) -> tuple[Grid, str]:
    """Chunks that were not measured take the seconds of a shorter one with the same past, by pairs."""
    columns = {
        "new": [row.case.shape.chunks[0].new for row in rows],
        "past": [row.case.shape.chunks[0].past for row in rows],
    }

    def longer(new: int, past: int, known: Mapping[tuple[int, int], float]) -> float:
        shorter = [count for count, before in known if before == past and count < new]
        if shorter:
            nearest = max(shorter)
            return known[nearest, past] * _pairs(new, past) / _pairs(nearest, past)
        before = max(before for count, before in known if count == new)
        return known[new, before] * _pairs(new, past) / _pairs(new, before)

    return _filled(source, "prefill", columns, rows, longer)


def _decode(source: str, rows: Sequence[Row]) -> tuple[Grid, str]:
    """Batches that no memory holds take the seconds of a shorter context, by tokens."""
    columns = {
        "decodes": [len(row.case.shape.contexts) for row in rows],
        "context": [row.case.shape.contexts[0] for row in rows],
    }

    def longer(decodes: int, context: int, known: Mapping[tuple[int, int], float]) -> float:
        shorter = [length for many, length in known if many == decodes]
        if shorter:
            return known[decodes, max(shorter)] * context / max(shorter)
        fewer = max(many for many, length in known if length == context)
        return known[fewer, context] * decodes / fewer

    return _filled(source, "decode", columns, rows, longer)


def _filled(
    source: str,
    name: str,
    columns: Mapping[str, Sequence[int]],
    rows: Sequence[Row],
    filling: Callable[[int, int, Mapping[tuple[int, int], float]], float],
) -> tuple[Grid, str]:
    seconds = [row.seconds for row in rows]
    if any(len(set(column)) < 2 for column in columns.values()):
        what = f"{name} attention was measured at {len(rows)} shapes"
        raise BadInput(Fault(source, what, "", "two counts of each axis; continue the run"))
    axes, values = pivot(columns, seconds)
    missing = holes(axes, values)
    if len(missing) > MOST_HOLES * values.size:
        what = f"{name} attention lacks {len(missing)} of {values.size} shapes: {hole_text(missing)}"
        raise BadInput(Fault(source, what, "", "half of them at least; continue the run"))
    first, second = axes.values()
    known = {
        (row, column): float(values[i, j])
        for i, row in enumerate(first)
        for j, column in enumerate(second)
        if np.isfinite(values[i, j])
    }
    for i, row in enumerate(first):
        for j, column in enumerate(second):
            if not np.isfinite(values[i, j]):
                values[i, j] = filling(int(row), int(column), known)
    fitted, move = monotone(values)
    note = f"{name.capitalize()} attention was made not to fall, which moved a shape by {100 * move:.1f} % at most"
    if missing:
        by = "pairs of query and key" if name == "prefill" else "tokens read"
        note += f"; {len(missing)} of {values.size} shapes were not measured and follow from others by {by}"
    return Grid("fitted" if missing else "measured", axes, fitted), note + "."


def _mixed(rows: Sequence[Row], prefill: Grid, decode: Grid) -> tuple[Grid | None, str]:
    """One chunk with equal decodes; a hole takes the sum of its parts, or the time of a smaller shape if more."""
    columns = {
        "new": [row.case.shape.chunks[0].new for row in rows],
        "past": [row.case.shape.chunks[0].past for row in rows],
        "decodes": [len(row.case.shape.contexts) for row in rows],
        "context": [row.case.shape.contexts[0] for row in rows],
    }
    if any(len(set(column)) < 2 for column in columns.values()):
        return (
            None,
            "A chunk together with decodes was not measured at two counts of each axis: the parts are added.",
        )
    axes, values = pivot(columns, [row.seconds for row in rows])
    missing = holes(axes, values)
    if len(missing) > MOST_HOLES * values.size:
        return None, (
            f"A chunk together with decodes lacks {len(missing)} of {values.size} shapes: the parts are added."
        )
    apart = at(prefill, axes)[:, :, None, None] + at(decode, axes)[None, None]
    smaller = np.where(np.isnan(values), 0.0, values)
    for axis in range(values.ndim):
        smaller = np.maximum.accumulate(smaller, axis=axis)
    fitted, move = monotone(np.where(np.isnan(values), np.maximum(apart, smaller), values))
    note = f"Mixed attention was made not to fall, which moved a shape by {100 * move:.1f} % at most"
    if missing:
        note += f"; {len(missing)} of {values.size} shapes take the sum of their parts"
    return Grid("fitted" if missing else "measured", axes, fitted), note + "."


def _skew(rows: Sequence[Row], decode: Grid) -> tuple[Grid | None, str]:
    """Alpha by decodes and longest over mean context: the median of what was measured in each class."""
    cells: dict[tuple[int, int], list[float]] = {}
    for row in rows:
        batch = row.case.shape
        alpha = _alpha(batch, row.seconds, decode)
        if alpha is not None:
            ratio = max(batch.contexts) / (sum(batch.contexts) / len(batch.contexts))
            edge = int(np.searchsorted(RATIO_EDGES, ratio, side="right")) - 1
            cells.setdefault((len(batch.contexts), edge), []).append(alpha)
    counts = sorted({decodes for decodes, _ in cells})
    if len(counts) < 2:
        return None, "What unequal lengths cost could not be told: decodes are priced at their mean."
    table = np.full((len(counts), len(RATIO_EDGES)), np.nan)
    table[:, 0] = 0.0
    for (decodes, edge), alphas in cells.items():
        table[counts.index(decodes), edge] = float(np.median(alphas))
    for line in table:
        for edge in range(1, len(line)):
            if np.isnan(line[edge]):
                line[edge] = line[edge - 1]
    known = sum(len(alphas) for alphas in cells.values())
    note = (
        f"Unequal decode lengths: alpha is the median of {known} batches by decodes and longest over mean context, "
        f"{float(np.median(table[:, 1:])):.2f} in the median."
    )
    axes = {"decodes": tuple(counts), "ratio": RATIO_EDGES}
    return Grid("fitted", axes, table, "alpha"), note


def _alpha(batch: Batch, seconds: float, decode: Grid) -> float | None:
    """Where between all at the mean and all at the longest a batch lies; None where these are too close to tell."""
    decodes = len(batch.contexts)
    mean = sum(batch.contexts) / decodes
    axes = {"decodes": (decodes,), "context": (mean, max(batch.contexts))}
    low, high = at(decode, axes)[0]
    if high < LEAST_CONTRAST * low:
        return None
    return float(np.clip((seconds - low) / (high - low), 0.0, 1.0))


def at(grid: Grid, counts: Mapping[str, Sequence[float]]) -> Floats:
    """Values of a two-dimensional grid at other counts of its axes, linear between its own."""
    (rows, row_axis), (columns, column_axis) = grid.axes.items()
    over_columns = np.array([np.interp(counts[columns], column_axis, line) for line in grid.values])
    found = np.array([np.interp(counts[rows], row_axis, line) for line in over_columns.T])
    return np.asarray(found.T, dtype=np.float64)


def _pairs(new: int, past: int) -> float:
    return new * past + new * (new + 1) / 2
