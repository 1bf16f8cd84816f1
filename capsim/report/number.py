"""Figures in print: 4 significant digits with their units, and a word where there is no figure."""

from __future__ import annotations

import math

from capsim.units import format_duration, format_share

NOTHING = "-"
"""A figure that does not exist."""
INFINITE = "inf"
"""A latency percentile among whose samples too many failed."""


def number(value: float | None, *, zeros: bool = False) -> str:
    """A plain number, e.g. ``14.3``, ``924,400``.

    Args:
        value: None does not exist.
        zeros: whether trailing zeros are kept, as in a column of figures of one kind.
    """
    if value is None:
        return NOTHING
    if value == 0:
        return "0"
    rounded = float(f"{value:.4g}")
    decimals = max(0, 3 - math.floor(math.log10(abs(rounded))))
    text = f"{rounded:,.{decimals}f}"
    return text if zeros or "." not in text else text.rstrip("0").rstrip(".")


def count(value: float | None) -> str:
    """A whole number with every digit, e.g. ``48,252``."""
    return NOTHING if value is None else f"{round(value):,}"


def share(value: float | None) -> str:
    """A share in percent; close to the whole with as many digits as tell it from the whole, e.g. ``99.994%``."""
    if value is None:
        return NOTHING
    missing = 100 * (1 - value)
    if 1e-7 < missing < 0.1:
        return f"{100 * value:.{-math.floor(math.log10(missing))}f}%"
    return format_share(value)


def duration(seconds: float | None, absent: str = NOTHING) -> str:
    """A duration in the unit that suits it, e.g. ``245.9ms``; `absent` where there is none."""
    return absent if seconds is None else format_duration(seconds)


def milliseconds(seconds: float | None, absent: str = NOTHING) -> str:
    """Milliseconds for a column that names the unit; `absent` where there is none."""
    return absent if seconds is None else number(1000 * seconds, zeros=True)
