"""Text in columns, at most `WIDTH` wide: tables, lists of terms and paragraphs."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from itertools import zip_longest

WIDTH = 100
"""Columns that a line may have."""
INDENT = "  "
GAP = "  "


def table(header: Sequence[str], align: str, rows: Iterable[Sequence[str]]) -> list[str]:
    """Lines of a table with a rule under its header.

    Args:
        header: one title a column; line breaks within are kept, titles stand on the rule.
        align: one letter a column: ``l`` left, ``r`` right. A last column that is left-aligned wraps; columns that
            are too wide together stand closer.
        rows: cells of each row.
    """
    titles = [title.split("\n") for title in header]
    body = [list(row) for row in rows]
    widths = [
        max(len(text) for text in (*title, *(row[i] for row in body))) for i, title in enumerate(titles)
    ]
    taken = len(INDENT) + sum(widths[:-1]) + len(GAP) * (len(widths) - 1)
    gap = GAP
    if align[-1] == "l":
        widths[-1] = min(widths[-1], WIDTH - taken)
    elif taken + widths[-1] > WIDTH:
        gap = " "
    height = max(map(len, titles))
    heads = [[""] * (height - len(title)) + title for title in titles]
    lines = [_line(row, align, widths, gap) for row in zip(*heads, strict=True)]
    lines.append(INDENT + gap.join("-" * width for width in widths))
    for row in body:
        *cells, last = row
        wrapped = textwrap.wrap(last, widths[-1]) or [""] if align[-1] == "l" else [last]
        for i, part in enumerate(wrapped):
            lines.append(_line([*(cells if i == 0 else [""] * len(cells)), part], align, widths, gap))
    return lines


def terms(pairs: Iterable[tuple[str, str]]) -> list[str]:
    """Lines of terms and what is said of them, in two columns; what is said wraps."""
    known = list(pairs)
    width = max(len(term) for term, _ in known)
    lines = []
    for term, said in known:
        parts = textwrap.wrap(said, WIDTH - len(INDENT) - width - len(GAP)) or [""]
        for name, part in zip_longest([term], parts, fillvalue=""):
            lines.append(f"{INDENT}{name:{width}}{GAP}{part}".rstrip())
    return lines


def paragraph(text: str, mark: str = "", depth: int = 1) -> list[str]:
    """Lines of a sentence or two, `depth` indents in; with a `mark` such as ``-``, later lines stand behind it."""
    start = INDENT * depth + (f"{mark} " if mark else "")
    return textwrap.wrap(text, WIDTH, initial_indent=start, subsequent_indent=" " * len(start))


def _line(cells: Sequence[str], align: str, widths: Sequence[int], gap: str) -> str:
    padded = [
        cell.ljust(width) if side == "l" else cell.rjust(width)
        for cell, side, width in zip(cells, align, widths, strict=True)
    ]
    return (INDENT + gap.join(padded)).rstrip()
