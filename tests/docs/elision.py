"""Printed output against what a page shows of it: ``...`` stands for any lines, or inside a line for any text."""

from __future__ import annotations

import difflib
import doctest
import re
from collections.abc import Sequence

ELISION = "..."
_LONGER = re.compile(r"\.{4,}")
"""Dots that leave nothing out: they are printed, as by pytest for its progress."""
_ALIKE = 0.5
"""Least likeness of a line that has changed since the page was written to the line that begins a shown part."""


def matches(shown: Sequence[str], printed: Sequence[str]) -> bool:
    """Whether the output is what the page shows."""
    want, got = (_LONGER.sub(_bullets, "\n".join(lines) + "\n") for lines in (shown, printed))
    return doctest.OutputChecker().check_output(want, got, doctest.ELLIPSIS)


def _bullets(dots: re.Match[str]) -> str:
    """As many signs in which doctest sees no ellipsis."""
    return "\N{BULLET}" * len(dots[0])


def difference(shown: Sequence[str], printed: Sequence[str]) -> str:
    """What differs, line by line, in the parts that the page shows."""
    try:
        fresh = refreshed(shown, printed)
    except LookupError:
        fresh = list(printed)
    return "\n".join(difflib.unified_diff(shown, fresh, "the page", "the command", lineterm=""))


def refreshed(shown: Sequence[str], printed: Sequence[str]) -> list[str]:
    """The output with the same parts left out as in `shown`.

    A part begins at the line that is most like its first one. A part that ends in a blank line before its ``...``
    holds as many paragraphs as before, any other as many lines; the last one, without ``...``, goes to the end.

    Raises:
        LookupError: no line is like the first one of a part.
    """
    if not shown:
        return list(printed)
    parts = _parts(shown)
    lines: list[str] = []
    position = 0
    for number, part in enumerate(parts):
        if number:
            lines.append(ELISION)
        if not part:
            continue
        start = position if number == 0 else _beginning(part, printed, position)
        stop = len(printed) if number == len(parts) - 1 else start + _length(part, printed[start:])
        lines += [_kept(line, part) for line in printed[start:stop]]
        position = stop
    return lines


def _parts(shown: Sequence[str]) -> list[list[str]]:
    """What stands between the lines ``...``."""
    parts: list[list[str]] = [[]]
    for line in shown:
        if line == ELISION:
            parts.append([])
        else:
            parts[-1].append(line)
    return parts


def _beginning(part: Sequence[str], printed: Sequence[str], position: int) -> int:
    """Where the part begins; a blank line at its head stands before the line that is looked for."""
    blank = next(i for i, line in enumerate(part) if line.strip())
    first = part[blank]
    likeness = [_likeness(first, line) for line in printed[position:]]
    best = max(likeness, default=0.0)
    if best < _ALIKE:
        raise LookupError(f"no line is like {first!r} any more")
    return position + likeness.index(best) - blank


def _likeness(shown: str, printed: str) -> float:
    """From 0 to 1; 1 also where an author has written only how the line begins."""
    if matches([shown], [printed]) or printed.startswith(shown):
        return 1.0
    return difflib.SequenceMatcher(None, shown, printed).ratio()


def _length(part: Sequence[str], printed: Sequence[str]) -> int:
    """How many lines of the output the part takes."""
    if part[-1].strip():
        return len(part)
    paragraphs = sum(not line.strip() for line in part)
    ends = [i + 1 for i, line in enumerate(printed) if not line.strip()]
    return ends[min(paragraphs, len(ends)) - 1] if ends else len(printed)


def _kept(line: str, part: Sequence[str]) -> str:
    """The line as the page has it, where that leaves something out and still matches."""
    return next((old for old in part if ELISION in old and matches([old], [line])), line)
