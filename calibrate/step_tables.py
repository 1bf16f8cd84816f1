"""A profile's tables from fitted pieces, moved to what was measured where it was measured."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from calibrate.draft import Attention, Curve, Grid, Operator
from calibrate.monotone import monotone
from calibrate.step_fit import LIVE_SPACING, Floats, MeasuredStep, StepFit, thinned
from calibrate.table import holes, pivot
from capsim.cost import Chunk

_SPACING = math.sqrt(2)
"""Between the counts of an axis that a square runs over: a line through them is at most 3 % off."""
_NEAR = 1.1
"""Counts nearer than this ratio to a measured one are not added to its axis."""
_SHORTEST_PAST = 256
"""Tokens of the first past that is added; attention grows with the past in at most two straight pieces."""


@dataclass(frozen=True)
class StepTables:
    """What a step's cost is composed of.

    Attributes:
        operators: the token part, named ``step_tokens``, and where it was sought the part of each sequence, named
            ``step_sequences``.
        attention: of all layers together.
        moved: most seconds by which a cell of the attention tables was moved, so that none falls along an axis.
        apart: median relative error of prefill plus decode on the mixed grid; None without such a grid.
    """

    operators: tuple[Operator, ...]
    attention: Attention
    moved: float
    apart: float | None


def tables_of(
    fit: StepFit, steps: Sequence[MeasuredStep], mixed: Sequence[MeasuredStep], *, live: bool = False
) -> StepTables:
    """The tables of fitted pieces.

    Each attention table holds the fitted formula plus the residual of the steps at its counts, linear between them
    along a row and then between rows, so that a shape that was measured alone keeps its measured seconds. For steps
    of a live engine it is the formula alone, since the residuals are noise.

    Args:
        fit: the pieces.
        steps: that were fitted.
        mixed: steps with chunks and decodes; a table is made of them where they fill a grid.
        live: the steps are of a live engine.
    """
    prefill, prefill_moved = _prefill(fit, steps, live)
    decode, decode_moved = _decode(fit, steps, live)
    together = None if live else _mixed(fit, mixed)
    errors = [abs(fit.step(step.batch) - step.seconds) / step.seconds for step in mixed] if together else []
    return StepTables(
        tuple(_operators(fit, max(len(step.batch.chunks) + step.batch.decodes for step in steps))),
        Attention(1, prefill, decode, mixed=together),
        moved=max(prefill_moved, decode_moved),
        apart=float(np.median(errors)) if errors else None,
    )


def _operators(fit: StepFit, sequences: int) -> Iterator[Operator]:
    yield Operator("step_tokens", "tokens", 1, "fitted", Curve.of(fit.counts, fit.tokens))
    if fit.per_sequence > 0:
        counts = (1, max(2, sequences))
        curve = Curve.of(counts, (fit.per_sequence * count for count in counts))
        yield Operator("step_sequences", "sequences", 1, "fitted", curve)


def context_of(step: MeasuredStep) -> int:
    """Mean context of a step's decodes, tokens."""
    return round(step.batch.context / step.batch.decodes)


def _decode(fit: StepFit, steps: Iterable[MeasuredStep], live: bool) -> tuple[Grid, float]:
    pure = [step for step in steps if step.batch.decodes and (live or not step.batch.chunks)]
    decodes = thinned(step.batch.decodes for step in pure)
    context = thinned((context_of(step) for step in pure), LIVE_SPACING if live else 1.0)
    formula = _table(fit.decode_seconds, decodes, context)
    measured = {(step.batch.decodes, context_of(step)): step.seconds - fit.step(step.batch) for step in pure}
    residuals = 0.0 if live else _residuals(measured, decodes, context)
    values, moved = _rising(formula + residuals)
    return Grid("fitted", {"decodes": decodes, "context": context}, values), moved


def _prefill(fit: StepFit, steps: Iterable[MeasuredStep], live: bool) -> tuple[Grid, float]:
    pure = [step for step in steps if not step.batch.decodes]
    ratio = LIVE_SPACING if live else 1.0
    chunks = [Chunk(*chunk) for step in (steps if live else pure) for chunk in step.batch.chunks]
    longest = max(step.batch.context // max(1, step.batch.decodes) for step in steps)
    new = _joined(thinned((chunk.new for chunk in chunks), ratio), 1, _SPACING)
    past = _joined(thinned([0, *(chunk.past for chunk in chunks)], ratio), _SHORTEST_PAST, 2.0, longest)
    formula = _table(lambda count, before: fit.chunk_seconds(Chunk(count, before)), new, past)
    measured = {
        (step.batch.chunks[0].new, step.batch.chunks[0].past): step.seconds - fit.step(step.batch)
        for step in pure
        if len(step.batch.chunks) == 1
    }
    residuals = 0.0 if live else _residuals(measured, new, past)
    values, moved = _rising(formula + residuals)
    tag = "assumed" if fit.assumed_rate else "fitted"
    return Grid(tag, {"new": new, "past": past}, values), moved


def _mixed(fit: StepFit, steps: Iterable[MeasuredStep]) -> Grid | None:
    """Attention of one chunk with equal decodes, where the steps fill a grid of at least two counts an axis."""
    single = [step for step in steps if len(step.batch.chunks) == 1]
    if not single:
        return None
    columns = {
        "new": [step.batch.chunks[0].new for step in single],
        "past": [step.batch.chunks[0].past for step in single],
        "decodes": [step.batch.decodes for step in single],
        "context": [context_of(step) for step in single],
    }
    attention = [step.seconds - fit.token_seconds(step.tokens) for step in single]
    axes, values = pivot(columns, attention)
    if min(map(len, axes.values())) < 2 or holes(axes, values):
        return None
    return Grid("fitted", axes, _rising(values)[0])


def _rising(values: Floats) -> tuple[Floats, float]:
    """Values that are not negative and never fall, and by how many seconds the farthest was moved."""
    rising, _ = monotone(np.maximum(0.0, values))
    return rising, float(np.max(np.abs(rising - values)))


def _joined(measured: Sequence[int], first: int, spacing: float, last: int | None = None) -> tuple[int, ...]:
    """The axis with counts `spacing` apart from `first` to the last, none of them near a measured one."""
    end = measured[-1] if last is None else max(last, measured[-1], 2 * first)
    steps = math.floor(math.log(end / first, spacing)) if end > first else 0
    added = {round(first * spacing**step) for step in range(steps + 1)} | {end}
    far = {count for count in added if all(not known / _NEAR < count < known * _NEAR for known in measured)}
    axis = tuple(sorted({*measured, *far}))
    return axis if len(axis) > 1 else (*axis, axis[-1] + 1)


def _table(seconds: Callable[[int, int], float], rows: Sequence[int], columns: Sequence[int]) -> Floats:
    return np.array([[seconds(row, column) for column in columns] for row in rows])


def _residuals(measured: dict[tuple[int, int], float], rows: Sequence[int], columns: Sequence[int]) -> Floats:
    """Residuals at every cell: linear between those of its row, then between rows; the nearest beyond them."""
    known = {}
    for row in rows:
        points = [column for column in columns if (row, column) in measured]
        if points:
            known[row] = np.interp(columns, points, [measured[row, point] for point in points])
    if not known:
        return np.zeros((len(rows), len(columns)))
    lines = np.array(list(known.values()))
    filled = [np.interp(rows, list(known), lines[:, place]) for place in range(len(columns))]
    return np.stack(filled, axis=1)
