"""Figures and tables as text."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence

_WIDTH = 100


def columns(header: Sequence[str], align: str, rows: Iterable[Sequence[str]]) -> list[str]:
    """Lines of a table with a rule under its header.

    Args:
        header: one title a column.
        align: one letter a column: ``l`` left, ``r`` right.
        rows: cells of each row.
    """
    body = [list(row) for row in rows]
    widths = [max(len(row[place]) for row in (list(header), *body)) for place in range(len(header))]
    lines = [list(header), ["-" * width for width in widths], *body]
    return [("  " + "  ".join(_padded(line, align, widths))).rstrip() for line in lines]


def sentences(notes: Iterable[str]) -> list[str]:
    """Sentences as a list, each wrapped."""
    lines = []
    for note in notes:
        lines += textwrap.wrap(note, _WIDTH, initial_indent="  - ", subsequent_indent="    ")
    return lines


def terms(facts: Mapping[str, str]) -> list[str]:
    """Names and what is said of them, in two columns; what is said wraps."""
    wide = max(map(len, facts)) + 2
    lines = []
    for name, fact in facts.items():
        lines += textwrap.wrap(fact, _WIDTH, initial_indent=f"{name:{wide}}", subsequent_indent=" " * wide)
    return lines


def percent(share: float | None) -> str:
    """A signed relative difference, e.g. ``+3.2 %``; a dash where there is none."""
    return "-" if share is None else f"{100 * share:+.1f} %"


def milliseconds(seconds: float | None) -> str:
    """Milliseconds with 4 significant digits; a dash where there are none."""
    if seconds is None:
        return "-"
    return f"{1e3 * seconds:,.0f}" if seconds >= 1 else f"{1e3 * seconds:#.4g}"


def _padded(cells: Sequence[str], align: str, widths: Sequence[int]) -> list[str]:
    return [
        cell.ljust(width) if side == "l" else cell.rjust(width)
        for cell, side, width in zip(cells, align, widths, strict=True)
    ]
