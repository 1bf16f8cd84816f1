"""How bursty recorded arrivals are."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def gap_cv(arrival: Floats) -> float:
    """Coefficient of variation of the gaps between arrivals; 1 for a Poisson process, NaN below 2 gaps.

    Args:
        arrival: seconds, shape (n,), not decreasing.
    """
    gaps = np.diff(arrival)
    if len(gaps) < 2 or gaps.mean() == 0:
        return float("nan")
    return float(gaps.std() / gaps.mean())


def dispersion_of_counts(arrival: Floats, window: float) -> float:
    """Index of dispersion of counts: sample variance over mean of arrivals per window; Poisson has 1.

    Windows start at the first arrival; the last, incomplete one is left out.

    Args:
        arrival: seconds, shape (n,), not decreasing.
        window: seconds.

    Returns:
        The index, NaN where fewer than 2 windows are complete.
    """
    since = arrival - arrival[0]
    windows = int(since[-1] // window)
    if windows < 2:
        return float("nan")
    # Counts of the windows that hold an arrival; the others, of which a long trace may have very many, add nothing.
    counts = np.unique(since[since < windows * window] // window, return_counts=True)[1]
    mean = counts.sum() / windows
    variance = (np.square(counts, dtype=np.float64).sum() - windows * mean**2) / (windows - 1)
    return float(variance / mean)
