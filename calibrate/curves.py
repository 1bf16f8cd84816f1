"""From rows of measurements to the tables of a profile, with how far the smoothing moved them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrate.draft import Curve, Grid, Operator
from calibrate.monotone import monotone
from calibrate.table import hole_text, holes, pivot
from capsim.errors import BadInput, Fault

FURTHER = 8
"""How many times further than the measured counts a table reaches by a rule; its ranges still end where it was
measured."""


def curve_of(source: str, name: str, counts: ArrayLike, seconds: ArrayLike) -> tuple[Curve, float]:
    """A curve that never falls, and its largest relative move; repeated counts give their median.

    Args:
        source: the file, for messages.
        name: the operator, for messages.
        counts: whole numbers of at least 1, shape (rows,).
        seconds: of one call, shape (rows,).

    Raises:
        BadInput: there are fewer than two different counts, or one of 0.
    """
    axes, values = pivot({"count": counts}, seconds)
    found = axes["count"]
    if len(found) < 2 or found[0] < 1:
        what = f"counts {', '.join(map(str, found)) or 'none'}"
        raise BadInput(Fault(source, what, name, "at least two different counts, each at least 1"))
    fitted, move = monotone(values)
    return Curve.of(found, fitted), move


def grid_of(
    source: str, name: str, axes: Mapping[str, ArrayLike], seconds: ArrayLike, tag: str = "measured"
) -> tuple[Grid, float]:
    """A complete grid that never falls along any axis, and its largest relative move.

    Raises:
        BadInput: an axis has fewer than two counts, or a combination of counts was not measured.
    """
    counts, values = pivot(axes, seconds)
    short = [axis for axis, found in counts.items() if len(found) < 2]
    if short:
        raise BadInput(Fault(source, f"{short[0]} has no two different counts", name))
    missing = holes(counts, values)
    if missing:
        what = f"the grid has {len(missing)} holes of {np.size(values)}: {hole_text(missing)}"
        raise BadInput(Fault(source, what, name, "every combination of its counts"))
    fitted, move = monotone(values)
    return Grid(tag, counts, fitted), move


def reaching(operator: Operator) -> Operator:
    """The operator with one count more, `FURTHER` times the last, at the mean slope of its upper half.

    A table ends inside a step of the kernel's tiles as likely as at its edge, so the slope of its last interval, which
    a reader goes on with, may be 0 or several times too steep.
    """
    aligned = None if operator.aligned is None else _reaching(operator.aligned)
    return replace(operator, curve=_reaching(operator.curve), aligned=aligned)


def reaching_prefill(grid: Grid) -> Grid:
    """The prefill table with chunks of up to `FURTHER` times its longest, by pairs of query and key.

    A chunk of ``n`` tokens after ``p`` has ``n p + n (n + 1) / 2`` pairs; each takes as long as in the longest chunk
    that was measured with the same tokens before it.
    """
    new, past = np.asarray(grid.axes["new"]), np.asarray(grid.axes["past"])
    doublings = int(np.log2(FURTHER))
    longer = [int(new[-1]) << doubling for doubling in range(1, doublings + 1)]
    rows = [grid.values[-1] * _pairs(count, past) / _pairs(new[-1], past) for count in longer]
    fitted, _ = monotone(np.vstack([grid.values, *rows]))
    # The measured rows stand as they are: the new ones are above them.
    fitted[: len(new)] = grid.values
    axes = {"new": (*grid.axes["new"], *longer), "past": grid.axes["past"]}
    return Grid(grid.tag, axes, np.maximum.accumulate(fitted, axis=0))


def _reaching(curve: Curve) -> Curve:
    last = curve.counts[-1]
    middle = bisect_right(curve.counts, last // 2) - 1
    middle = max(0, min(middle, len(curve.counts) - 2))
    slope = (curve.seconds[-1] - curve.seconds[middle]) / (last - curve.counts[middle])
    far = FURTHER * last
    return Curve((*curve.counts, far), (*curve.seconds, curve.seconds[-1] + slope * (far - last)))


def _pairs(new: ArrayLike, past: NDArray[Any]) -> NDArray[np.float64]:
    new = np.asarray(new, dtype=np.float64)
    return np.asarray(new * past + new * (new + 1) / 2, dtype=np.float64)
