"""LLMServingSim's attention kernels as tables: prefill, decode, and both together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from calibrate.curves import grid_of
from calibrate.draft import Attention, Draft, Grid
from calibrate.monotone import monotone
from calibrate.regime import errors_of
from calibrate.table import Table, hole_text, holes, pivot
from capsim.cost import BatchShape, Chunk, ProfileCost
from capsim.cost.profile_tables import HeldOut
from capsim.errors import BadInput, Fault

AXES = ("new", "past", "decodes", "context")
MOST_HOLES = 0.1
"""Share of the mixed grid that may be filled; a table with more holes is no measurement of it."""
_MICROSECOND = 1e-6


@dataclass(frozen=True)
class Shapes:
    """Measured batches: one chunk, equal decodes, or both.

    Attributes:
        source: the file.
        counts: by the names in `AXES`, each of shape (rows,); the context counts the new token, and is 0 without
            decodes.
        seconds: of one layer, shape (rows,).
    """

    source: str
    counts: Mapping[str, NDArray[np.int64]]
    seconds: NDArray[np.float64]

    @classmethod
    def of(cls, table: Table) -> Shapes:
        """From ``attention.csv``.

        Raises:
            BadInput: a cell is no count, or a row has neither a chunk nor decodes.
        """
        new, past = table.counts("prefill_chunk"), table.counts("kv_prefill")
        decodes, before = table.counts("n_decode"), table.counts("kv_decode")
        empty = np.flatnonzero((new == 0) & (decodes == 0))
        if len(empty):
            raise BadInput(table.fault(int(empty[0]), "prefill_chunk", "neither a chunk nor decodes"))
        context = np.where(decodes > 0, before + 1, 0)
        counts = dict(zip(AXES, (new, past, decodes, context), strict=True))
        return cls(table.source, counts, table.numbers("time_us") * _MICROSECOND)

    def where(self, mask: NDArray[np.bool_]) -> Shapes:
        """The rows of a mask of shape (rows,)."""
        return Shapes(self.source, {axis: self.counts[axis][mask] for axis in AXES}, self.seconds[mask])

    def doubling(self) -> NDArray[np.bool_]:
        """Which rows hold nothing but powers of two, shape (rows,)."""
        before = np.maximum(self.counts["context"] - 1, 0)
        columns = (self.counts["new"], self.counts["past"], self.counts["decodes"], before)
        doubling = np.ones(len(self.seconds), dtype=np.bool_)
        for column in columns:
            doubling &= (column & (column - 1)) == 0
        return doubling

    def ranges(self) -> dict[str, tuple[int, int]]:
        """Lowest and highest measured count of each axis, in rows that the tables hold."""
        kept = self.where(self.doubling())
        present = {"new": "new", "past": "new", "decodes": "decodes", "context": "decodes"}
        rows = {axis: kept.counts[axis][kept.counts[part] > 0] for axis, part in present.items()}
        return {axis: (int(column.min()), int(column.max())) for axis, column in rows.items()}

    def batches(self, layers: int) -> tuple[list[BatchShape], list[float]]:
        """Each row as a batch, and its measured seconds of all layers."""
        columns = [self.counts[axis].tolist() for axis in AXES]
        batches = [
            BatchShape((Chunk(new, past),) if new else (), decodes, decodes * context, 1, 0, 0, context)
            for new, past, decodes, context in zip(*columns, strict=True)
        ]
        return batches, (layers * self.seconds).tolist()


def attention_of(shapes: Shapes, layers: int) -> tuple[Attention, list[str]]:
    """Tables over the powers of two, and notes on what was moved and filled.

    Raises:
        BadInput: the prefill or the decode table has holes, or the mixed one has too many.
    """
    kept = shapes.where(shapes.doubling())
    chunk, decoding = kept.counts["new"] > 0, kept.counts["decodes"] > 0
    prefill, prefill_move = _part(kept.where(chunk & ~decoding), "prefill attention", AXES[:2])
    decode, decode_move = _part(kept.where(decoding & ~chunk), "decode attention", AXES[2:])
    moves = f"prefill {100 * prefill_move:.1f} %, decode {100 * decode_move:.1f} %"
    both = kept.where(chunk & decoding)
    if not len(both.seconds):
        notes = ["A chunk together with decodes was not measured: the parts are added."]
        mixed = None
    else:
        mixed, mixed_move, notes = _mixed(both, prefill, decode)
        moves += f", mixed {100 * mixed_move:.1f} %"
    notes.append(
        f"Attention was made not to fall along any axis, which moved single shapes by at most: {moves}."
    )
    return Attention(layers, prefill, decode, mixed), notes


def held_out_errors(draft: Draft, shapes: Shapes) -> tuple[tuple[HeldOut, ...], str]:
    """Errors of the attention tables on measured shapes that they do not hold, and the note that says which."""
    layers = draft.attention.times
    rest = ~shapes.doubling()
    note = f"Held out: attention of {int(rest.sum()):,} measured shapes that are no powers of two."
    if not rest.any():
        kept = _every_second(shapes)
        rest = ~kept
        if not rest.any():
            return (), "Nothing was held out: too few lengths were measured."
        attention, _ = attention_of(shapes.where(kept), layers)
        draft = replace(
            draft,
            attention=attention,
            ranges={**draft.ranges, **shapes.where(kept).ranges()},
        )
        note = (
            "Held out: attention at every second length, by tables without these lengths, which are twice as coarse as "
            "the tables of this file and err more."
        )
    stated = draft.provenance
    dtypes = (stated.dtype, stated.kv_dtype)
    cost = ProfileCost(draft.profile(), stated.model, *dtypes, stated.tensor_parallel_size)
    batches, measured = shapes.where(rest).batches(layers)
    return errors_of(batches, [cost.parts(batch)["attention"] for batch in batches], measured), note


def _part(rows: Shapes, name: str, axes: tuple[str, ...]) -> tuple[Grid, float]:
    return grid_of(rows.source, name, {axis: rows.counts[axis] for axis in axes}, rows.seconds)


def _mixed(both: Shapes, prefill: Grid, decode: Grid) -> tuple[Grid, float, list[str]]:
    """The mixed table; a hole takes the sum of its parts, or the time of a smaller shape where that is more."""
    counts, values = pivot({axis: both.counts[axis] for axis in AXES}, both.seconds)
    missing = holes(counts, values)
    short = [axis for axis in AXES if len(counts[axis]) < 2]
    if short or len(missing) > MOST_HOLES * values.size:
        what = f"the grid of a chunk with decodes has {len(missing)} holes of {values.size}: {hole_text(missing)}"
        what = f"{short[0]} has no two different counts beside decodes" if short else what
        raise BadInput(Fault(both.source, what, "mixed attention", f"{MOST_HOLES:.0%} at most"))
    apart = _at(prefill, counts)[:, :, None, None] + _at(decode, counts)[None, None]
    smaller = np.where(np.isnan(values), 0.0, values)
    for axis in range(values.ndim):
        smaller = np.maximum.accumulate(smaller, axis=axis)
    fitted, move = monotone(np.where(np.isnan(values), np.maximum(apart, smaller), values))
    notes = []
    if missing:
        notes.append(
            f"{len(missing)} of {values.size} shapes of a chunk with decodes were not measured and take the sum of "
            f"their parts, or the time of a smaller shape where that is more: {hole_text(missing)}."
        )
    return Grid("fitted" if missing else "measured", counts, fitted), move, notes


def _at(grid: Grid, counts: Mapping[str, tuple[int, ...]]) -> NDArray[np.float64]:
    """Values of a two-dimensional grid at other counts of its axes, linear between its own."""
    (rows, row_axis), (columns, column_axis) = grid.axes.items()
    over_columns = np.array([np.interp(counts[columns], column_axis, line) for line in grid.values])
    found = np.array([np.interp(counts[rows], row_axis, line) for line in over_columns.T])
    return np.asarray(found.T, dtype=np.float64)


def _every_second(shapes: Shapes) -> NDArray[np.bool_]:
    """Which rows have each length among every second of those measured, the ends included, shape (rows,)."""
    kept = np.ones(len(shapes.seconds), dtype=np.bool_)
    for axis in ("past", "context"):
        lengths = np.unique(shapes.counts[axis][shapes.counts[axis] > 0])
        kept &= np.isin(shapes.counts[axis], lengths[1:-1:2], invert=True)
    return kept
