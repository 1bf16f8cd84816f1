"""What unequal decode lengths cost, from LLMServingSim's ``skew.csv``: decodes alone, and beside a chunk.

A row is a batch in which some decodes have ``kv_big`` tokens before their own and the others fewer, ``kv_mean`` on
average: ``t_mean_us`` and ``t_max_us`` are the times of as many equal decodes at the mean and at the largest,
``t_skew_us`` that of the batch. ``pc`` are the tokens of a chunk beside them, after ``kp`` others; 0: there is none.

Only ratios of a row's times are used: the file has the sum of the profiler's repetitions, three times what
``attention.csv`` has for the same batches.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from calibrate.draft import Attention, Grid
from calibrate.table import Table
from capsim.cost.curve import Grid as Seconds
from capsim.errors import BadInput, Fault

COLUMNS = ("n", "pc", "kp", "kv_big", "kv_mean", "t_mean_us", "t_max_us", "t_skew_us")
RATIOS = (1.0, 1.15, 1.4, 2.0, 2.75, 3.25)
"""Edges of the classes of largest over mean context; the profiler's shapes lie well inside them."""
LEAST_CONTRAST = 1.05
"""Alpha is known only where all at the largest take so many times as long as all at the mean: timers err by 1 %."""
Floats = NDArray[np.float64]


def with_skew(attention: Attention, table: Table) -> tuple[Attention, list[str]]:
    """The attention with both tables of alpha, and notes on them; that beside a chunk only where it was measured.

    Raises:
        BadInput: a cell of the file is no number, or decodes alone were measured for fewer than two numbers of them.
    """
    skew, note = skew_of(table)
    mixed, mixed_note = mixed_skew_of(table, attention)
    return replace(attention, skew=skew, mixed_skew=mixed), [note, mixed_note]


def skew_of(table: Table) -> tuple[Grid, str]:
    """Alpha of decodes alone by their number and largest over mean context, and the note on its spread.

    Each cell is the median over the measured lengths, cut to [0, 1]; a class without a measurement takes that of the
    nearest class of the same number of decodes.

    Raises:
        BadInput: a cell of the file is no number, or fewer than two numbers of decodes were measured.
    """
    mean, largest, skewed = (table.numbers(name) for name in ("t_mean_us", "t_max_us", "t_skew_us"))
    known = (table.counts("pc") == 0) & (largest > LEAST_CONTRAST * mean)
    alpha = np.clip((skewed - mean)[known] / (largest - mean)[known], 0.0, 1.0)
    if len(np.unique(table.counts("n")[known])) < 2:
        what = "decode-only batches of fewer than two sizes"
        raise BadInput(Fault(table.source, what, "n", "two at least"))
    grid, spreads, filled = _grid(table.where(known), alpha)
    note = (
        f"Unequal decode lengths: alpha is the median of {len(alpha)} decode-only batches by decodes and largest over "
        f"mean context; within a class the middle half spans {np.median(spreads):.2f} in the median and "
        f"{max(spreads):.2f} at most; {filled} of {grid.values.size} classes take their neighbour's."
    )
    return grid, note


def mixed_skew_of(table: Table, attention: Attention) -> tuple[Grid | None, str]:
    """Alpha beside a chunk, None where fewer than two numbers of decodes were measured so, and the note on it.

    A step cost multiplies chunk and decodes, apart, by how much longer equal ones take together. Alpha is the share of
    the way, in the time of the decodes apart, that gives the measured ratio of the unequal batch to the equal one:
    ``(t_skew / t_mean - 1) * (chunk + decodes at the mean) / (decodes at the largest - decodes at the mean)``. It may
    exceed 1. Cells as in `skew_of`; they depend on the tokens of the chunk far less than on the number of decodes.

    Raises:
        BadInput: a cell of the file is no number.
    """
    mean, largest, skewed = (table.numbers(name) for name in ("t_mean_us", "t_max_us", "t_skew_us"))
    together = table.where((table.counts("pc") > 0) & (largest > LEAST_CONTRAST * mean))
    mean, skewed = together.numbers("t_mean_us"), together.numbers("t_skew_us")
    chunk = _values(attention.prefill, together.counts("pc"), together.counts("kp"))
    decodes = together.counts("n")
    at_mean = _values(attention.decode, decodes, together.numbers("kv_mean") + 1)
    more = _values(attention.decode, decodes, together.numbers("kv_big") + 1) - at_mean
    known = more > (LEAST_CONTRAST - 1) * at_mean
    if len(np.unique(decodes[known])) < 2:
        return (
            None,
            "Unequal decode lengths beside a chunk were not measured: they cost as much as without one.",
        )
    longer, apart, more = (skewed / mean)[known], (chunk + at_mean)[known], more[known]
    grid, _, filled = _grid(together.where(known), np.maximum((longer - 1) * apart / more, 0.0))
    found = _alpha_at(grid, together.where(known))
    errors, plain = (1 + found * more / apart) / longer - 1, 1 / longer - 1
    note = (
        f"Beside a chunk alpha is the median of {len(longer)} batches; {filled} of {grid.values.size} classes take "
        f"their neighbour's. With it their attention errs by {_percent(errors)}, without it by {_percent(plain)}."
    )
    return grid, note


def _grid(rows: Table, alpha: Floats) -> tuple[Grid, list[float], int]:
    """Medians of alpha by class, the spread of each class that has some, and how many have none."""
    decodes, classes = rows.counts("n"), _classes(rows)
    axis = np.unique(decodes)
    cells = np.full((len(axis), len(RATIOS)), np.nan)
    spreads = []
    for row, count in enumerate(axis):
        for column in range(len(RATIOS)):
            found = alpha[(decodes == count) & (classes == column)]
            if len(found):
                low, cells[row, column], high = np.quantile(found, (0.25, 0.5, 0.75))
                spreads.append(float(high - low))
    axes = {"decodes": tuple(axis.tolist()), "ratio": RATIOS}
    return Grid("fitted", axes, _nearest(cells), "alpha"), spreads, int(np.isnan(cells).sum())


def _classes(rows: Table) -> NDArray[np.int64]:
    ratio = rows.numbers("kv_big") / np.maximum(rows.numbers("kv_mean"), 1)
    return np.asarray(np.searchsorted(RATIOS, ratio, side="right") - 1, dtype=np.int64)


def _alpha_at(grid: Grid, rows: Table) -> Floats:
    """Alpha of measured batches, shape (rows,)."""
    place = np.searchsorted(grid.axes["decodes"], rows.counts("n"))
    found: Floats = grid.values[place, _classes(rows)]
    return found


def _nearest(cells: Floats) -> Floats:
    """Rows in which a cell without a value takes that of the nearest cell that has one, the lower where two are."""
    filled = np.array(cells, dtype=np.float64)
    for row in filled:
        known = np.flatnonzero(~np.isnan(row))
        for column in np.flatnonzero(np.isnan(row)):
            row[column] = row[known[np.argmin(np.abs(known - column))]]
    return filled


def _values(grid: Grid, rows: NDArray[np.int64], columns: NDArray[np.int64] | Floats) -> Floats:
    """Seconds at pairs of counts, between the points as a step cost takes them, shape (rows,)."""
    row_axis, column_axis = (tuple(int(count) for count in axis) for axis in grid.axes.values())
    seconds = Seconds(row_axis, column_axis, tuple(map(tuple, grid.values.tolist())))
    curves = {count: seconds.row(count) for count in np.unique(rows).tolist()}
    pairs = zip(rows.tolist(), columns.tolist(), strict=True)
    return np.array([curves[row].at(column) for row, column in pairs])


def _percent(errors: Floats) -> str:
    return f"{100 * np.median(np.abs(errors)):.1f} % in the median ({100 * errors.mean():+.1f} % on average)"
