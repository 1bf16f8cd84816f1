"""A table of signed errors, as text and as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from textwrap import wrap

WIDTH = 110
"""Characters in a line of prose."""
MISS = "!"
"""Follows an error that is outside its target."""
INDISTINCT = "~"
"""Follows an error above its target that repeats of the measurement differ by."""


@dataclass(frozen=True)
class Verdict:
    """What was asked of a comparison and what was found.

    Attributes:
        figure: what is judged.
        target: largest error, in words.
        found: error, in words.
        met: whether it is inside.
    """

    figure: str
    target: str
    found: str
    met: bool

    @property
    def word(self) -> str:
        """For a table."""
        return "met" if self.met else "MISSED"


@dataclass(frozen=True)
class Table:
    """What was compared, and with what result.

    Attributes:
        title: what was simulated and what was measured.
        told: what the simulation knew of the run, one sentence each; what was fitted above all.
        columns: their heads; the first `labels` of them name a row.
        rows: cells, one a column.
        labels: columns that are words.
        causes: what is missed and why, as far as it is shown.
        verdicts: one a target.
    """

    title: str
    told: tuple[str, ...]
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    labels: int = 1
    causes: tuple[str, ...] = ()
    verdicts: tuple[Verdict, ...] = ()

    def text(self) -> Iterator[str]:
        """Lines for a terminal."""
        widths = [max(map(len, column)) for column in zip(self.columns, *self.rows, strict=True)]
        yield self.title
        for sentence in self.told:
            yield from wrap(sentence, WIDTH)
        yield ""
        for row in (self.columns, *self.rows):
            yield "  ".join(
                cell.ljust(width) if place < self.labels else cell.rjust(width)
                for place, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
        for cause in self.causes:
            yield from ("", *wrap(cause, WIDTH))

    def markdown(self) -> Iterator[str]:
        """Lines of a section of a page."""
        yield f"## {self.title}"
        for sentence in self.told:
            yield from ("", *wrap(sentence, WIDTH))
        rules = ["---"] * self.labels + ["---:"] * (len(self.columns) - self.labels)
        yield ""
        for row in (self.columns, rules, *self.rows):
            yield "| " + " | ".join(row) + " |"
        yield ""
        for cause in self.causes:
            yield from wrap(f"- {cause}", WIDTH, subsequent_indent="  ")
        if self.causes:
            yield ""


def percent(error: float, target: float | None = None, spread: float = 0.0) -> str:
    """A signed error; marked where it is above its target, by whether repeats differ as much.

    Args:
        error: relative.
        target: largest size; None: nothing is asked of it.
        spread: by how much repeats of the measurement differ, relative.
    """
    mark = ""
    if target is not None and abs(error) > target:
        mark = INDISTINCT if abs(error) <= spread else MISS
    return f"{100 * error:+.1f}%{mark}"


def mean_size(errors: Sequence[float]) -> float:
    """Mean of the sizes of errors."""
    return sum(map(abs, errors)) / len(errors)
