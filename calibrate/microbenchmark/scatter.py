"""How far what was measured scatters, and whether its profile can be believed all the same."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from calibrate.microbenchmark.row import Row
from capsim.cost.profile_tables import HeldOut

AIMED_SPREAD = 0.05
"""Of the repeats of one call, in the median of the rows: what an idle machine stays below."""
AIMED_ERROR = 0.10
"""Ninetieth percentile of the errors on what the tables have not seen."""
AGAIN = "measure again on an idle machine"


def spread_of(rows: Iterable[Row]) -> float | None:
    """Median over the rows of the spread of their repeats, as `Sample` has it; None where no row has seconds."""
    spreads = sorted(row.sample.spread for row in rows if row.sample is not None)
    return spreads[len(spreads) // 2] if spreads else None


def scatter_warnings(spread: float | None, held_out: Sequence[HeldOut]) -> list[str]:
    """What lies above what is aimed at, a sentence each.

    Args:
        spread: see `spread_of`.
        held_out: the profile's errors on what its tables have not seen.
    """
    warnings = []
    if spread is not None and spread > AIMED_SPREAD:
        warnings.append(
            f"repeats of one call spread by {100 * spread:.1f} % in the median of the rows, above the "
            f"{100 * AIMED_SPREAD:g} % that are aimed at: {AGAIN}"
        )
    worst = max(held_out, key=lambda case: case.p90, default=None)
    if worst is not None and worst.p90 > AIMED_ERROR:
        warnings.append(
            f"the error on held-out cases ({worst.regime}, {worst.size}) is {100 * worst.p90:.1f} % in the 90th "
            f"percentile, above the {100 * AIMED_ERROR:g} % that are aimed at: {AGAIN}, or for longer"
        )
    return warnings
