from __future__ import annotations

import difflib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from capsim.cost.curve import Curve, Grid
from capsim.cost.profile_tables import Mixed, Skew
from capsim.documents import Document, KeyPath
from capsim.errors import Fault

_TAGS = ("measured", "fitted", "derived", "assumed")
_UNKNOWN_AXIS = (0, 1)
_UNKNOWN_CURVE = Curve.through(_UNKNOWN_AXIS, (0.0, 0.0))
_UNKNOWN_GRID = Grid(_UNKNOWN_AXIS, _UNKNOWN_AXIS, ((0.0, 0.0), (0.0, 0.0)))
_MISSING = object()


@dataclass(frozen=True)
class Reader:
    """One value of a document with its place, for checks that report every fault and not the first alone.

    A check that fails adds to `faults` and returns a stand-in of the right type; a missing value is reported once,
    where it is missing.

    Attributes:
        document: knows where each value stands.
        faults: shared by all readers of a document.
        value: what stands there.
        path: keys and indices to the value.
    """

    document: Document
    faults: list[Fault]
    value: Any
    path: KeyPath = ()

    def fault(self, what: str, expected: str = "", suggestion: str = "") -> None:
        """Add a fault at this place, except where the value is missing and was reported so."""
        if self.value is not _MISSING:
            self.faults.append(self.document.fault(self.path, what, expected, suggestion))

    @property
    def present(self) -> bool:
        """Whether the value is there at all."""
        return self.value is not _MISSING

    def members(self, *names: str, optional: tuple[str, ...] = ()) -> dict[str, Reader]:
        """Readers of an object's members: all of `names`, perhaps some of `optional`, no other."""
        value = self.value if isinstance(self.value, dict) else {}
        known = (*names, *optional)
        if not isinstance(self.value, dict):
            self.fault(_found(self.value), "an object")
            return {name: self._at(name, _MISSING) for name in known}
        for name in names:
            if name not in value:
                self._at(name, None).fault("is missing")
        for name in value:
            if name not in known:
                close = difflib.get_close_matches(name, known, 1)
                self._at(name, None).fault("is not a key here", suggestion=close[0] if close else "")
        return {name: self._at(name, value.get(name, _MISSING)) for name in known}

    def items(self, least: int = 1) -> list[Reader]:
        """Readers of a list's items; a list that is missing has none."""
        if isinstance(self.value, list) and len(self.value) >= least:
            return [self._at(index, item) for index, item in enumerate(self.value)]
        self.fault(_found(self.value), f"a list of at least {least}" if least else "a list")
        return []

    def one_of(self, *words: str) -> str:
        """One of these words."""
        if self.value in words:
            return str(self.value)
        self.fault(_found(self.value), " or ".join(words))
        return words[0]

    def number(self) -> float:
        """A finite number."""
        if (
            isinstance(self.value, int | float)
            and not isinstance(self.value, bool)
            and math.isfinite(self.value)
        ):
            return float(self.value)
        self.fault(_found(self.value), "a number")
        return 0.0

    def text(self) -> str:
        """A text that is not empty."""
        if isinstance(self.value, str) and self.value:
            return self.value
        self.fault(_found(self.value), "a text")
        return ""

    def count(self, least: int = 1) -> int:
        """A whole number of at least so much."""
        if _is_count(self.value) and self.value >= least:
            return int(self.value)
        self.fault(_found(self.value), f"a whole number of at least {least}")
        return least

    def seconds(self) -> float:
        """A duration that is not negative."""
        if _is_duration(self.value):
            return float(self.value)
        self.fault(_found(self.value), "seconds, not negative")
        return 0.0

    def tag(self) -> str:
        """How figures are known."""
        return self.one_of(*_TAGS)

    def tag_of(self) -> str:
        """How the figures of this table are known."""
        tag = self.value.get("tag", _MISSING) if isinstance(self.value, dict) else _MISSING
        return self._at("tag", tag).tag()

    def range(self) -> tuple[int, int]:
        """Lowest and highest count."""
        value = self.value
        if (
            isinstance(value, list)
            and len(value) == 2
            and all(map(_is_count, value))
            and value[0] <= value[1]
        ):
            return value[0], value[1]
        self.fault(_found(value), "the lowest and the highest count")
        return _UNKNOWN_AXIS

    def curve(self, seconds: Reader) -> Curve:
        """Seconds over the counts that stand here."""
        points = self.axis()
        values = seconds.row(len(points)) if points else None
        return Curve.through(points, values) if points and values else _UNKNOWN_CURVE

    def grid(self, rows: str, columns: str) -> Grid:
        """A table of seconds over two axes, a list for each count of `rows`."""
        parts = self.members("tag", rows, columns, "seconds")
        row_points, column_points = parts[rows].axis(), parts[columns].axis()
        if not row_points or not column_points:
            return _UNKNOWN_GRID
        values = parts["seconds"].table(len(row_points), len(column_points))
        return Grid(row_points, column_points, values) if values else _UNKNOWN_GRID

    def mixed(self) -> Mixed | None:
        """Attention of one chunk with equal decodes, over four axes."""
        names = ("new", "past", "decodes", "context")
        parts = self.members("tag", *names, "seconds")
        new, past, decodes, context = (parts[name].axis() for name in names)
        if not (new and past and decodes and context):
            return None
        seconds = parts["seconds"].block((len(new), len(past), len(decodes), len(context)))
        return None if seconds is None else Mixed(new, past, decodes, context, seconds)

    def skew(self, most: float = 1) -> Skew | None:
        """Shares by decodes and by longest over mean context, at most so large."""
        parts = self.members("tag", "decodes", "ratio", "alpha")
        decodes = parts["decodes"].axis()
        ratio = parts["ratio"].value
        rows = parts["alpha"].value
        sound = isinstance(ratio, list) and all(map(_is_duration, ratio)) and len(ratio) > 0
        if not sound or ratio[0] != 1 or any(b <= a for a, b in pairwise(ratio)):
            parts["ratio"].fault(_found(ratio), "numbers that increase from 1")
            return None
        if decodes is None:
            return None
        for index, row in enumerate(rows if isinstance(rows, list) else []):
            sound = isinstance(row, list) and len(row) == len(ratio) and all(map(_is_duration, row))
            if not sound or max(row) > most:
                bound = f"from 0 to {most}" if most < math.inf else "not negative"
                parts["alpha"]._at(index, row).fault(_found(row), f"{len(ratio)} shares {bound}")
                return None
        if not isinstance(rows, list) or len(rows) != len(decodes):
            parts["alpha"].fault(_found(rows), f"{len(decodes)} rows, as many as the axis has")
            return None
        return Skew(decodes, tuple(map(float, ratio)), tuple(tuple(map(float, row)) for row in rows))

    def block(self, shape: Sequence[int]) -> tuple[Any, ...] | None:
        """Nested lists of seconds of this shape, none of which falls along the last two axes; None where not."""
        if len(shape) == 2:
            return self.table(*shape)
        if not isinstance(self.value, list) or len(self.value) != shape[0]:
            self.fault(_found(self.value), f"a list of {shape[0]}, as many as the axis has")
            return None
        read = [self._at(index, item).block(shape[1:]) for index, item in enumerate(self.value)]
        return None if any(item is None for item in read) else tuple(read)

    def axis(self, least: int = 2) -> tuple[int, ...] | None:
        """Strictly increasing counts, at least so many; None where they are not."""
        value = self.value
        if not isinstance(value, list) or len(value) < least or not all(map(_is_count, value)):
            self.fault(_found(value), f"at least {least} whole numbers" if least else "whole numbers")
            return None
        for before, after in pairwise(value):
            if after <= before:
                self.fault(f"{after} follows {before}", "numbers that increase")
                return None
        return tuple(value)

    def row(self, length: int) -> tuple[float, ...] | None:
        """So many seconds, none below the one before; None where they are not."""
        value = self.value
        if not isinstance(value, list) or len(value) != length:
            found = f"{len(value)} values" if isinstance(value, list) else _found(value)
            self.fault(found, f"{length} values, as many as the axis has")
            return None
        for index, seconds in enumerate(value):
            if not _is_duration(seconds):
                self.fault(f"value {index} is {_found(seconds)}", "seconds, not negative")
                return None
            if index and seconds < value[index - 1]:
                self.fault(
                    f"value {index} falls from {value[index - 1]} to {seconds}", "seconds that do not fall"
                )
                return None
        return tuple(map(float, value))

    def table(self, rows: int, columns: int) -> tuple[tuple[float, ...], ...] | None:
        """A list for each row, each as `row` wants it, and none below the row before; None where they are not."""
        if not isinstance(self.value, list) or len(self.value) != rows:
            found = f"{len(self.value)} rows" if isinstance(self.value, list) else _found(self.value)
            self.fault(found, f"{rows} rows, as many as the axis has")
            return None
        read = [self._at(index, row).row(columns) for index, row in enumerate(self.value)]
        table = [row for row in read if row is not None]
        if len(table) < rows:
            return None
        for index in range(1, rows):
            for above, here in zip(table[index - 1], table[index], strict=True):
                if here < above:
                    self.fault(f"row {index} falls from {above} to {here}", "seconds that do not fall")
                    return None
        return tuple(table)

    def _at(self, step: str | int, value: Any) -> Reader:
        return replace(self, value=value, path=(*self.path, step))


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_duration(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf


def _found(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
