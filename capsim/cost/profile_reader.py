from __future__ import annotations

import difflib
import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from capsim.cost.curve import Curve, Grid
from capsim.documents import Document, KeyPath
from capsim.errors import Fault

_TAGS = ("measured", "fitted", "assumed")
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

    def members(self, *names: str) -> dict[str, Reader]:
        """Readers of an object's members, exactly these."""
        value = self.value if isinstance(self.value, dict) else {}
        if not isinstance(self.value, dict):
            self.fault(_found(self.value), "an object")
            return {name: self._at(name, _MISSING) for name in names}
        for name in names:
            if name not in value:
                self._at(name, None).fault("is missing")
        for name in value:
            if name not in names:
                close = difflib.get_close_matches(name, names, 1)
                self._at(name, None).fault("is not a key here", suggestion=close[0] if close else "")
        return {name: self._at(name, value.get(name, _MISSING)) for name in names}

    def text(self) -> str:
        """A text that is not empty."""
        if isinstance(self.value, str) and self.value:
            return self.value
        self.fault(_found(self.value), "a text")
        return ""

    def count(self) -> int:
        """A whole number of at least 1."""
        if _is_count(self.value) and self.value > 0:
            return int(self.value)
        self.fault(_found(self.value), "a whole number of at least 1")
        return 1

    def seconds(self) -> float:
        """A duration that is not negative."""
        if _is_duration(self.value):
            return float(self.value)
        self.fault(_found(self.value), "seconds, not negative")
        return 0.0

    def tag(self) -> str:
        """How a table's figures are known."""
        tag = self.value.get("tag", _MISSING) if isinstance(self.value, dict) else _MISSING
        if tag in _TAGS:
            return str(tag)
        self._at("tag", tag).fault(_found(tag), " or ".join(_TAGS))
        return "assumed"

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

    def curve(self, axis: str) -> Curve:
        """A table of seconds over one axis."""
        parts = self.members("tag", axis, "seconds")
        points = parts[axis].axis()
        values = parts["seconds"].row(len(points)) if points else None
        return Curve.through(points, values) if points and values else _UNKNOWN_CURVE

    def grid(self, rows: str, columns: str) -> Grid:
        """A table of seconds over two axes, a list for each count of `rows`."""
        parts = self.members("tag", rows, columns, "seconds")
        row_points, column_points = parts[rows].axis(), parts[columns].axis()
        if not row_points or not column_points:
            return _UNKNOWN_GRID
        values = parts["seconds"].table(len(row_points), len(column_points))
        return Grid(row_points, column_points, values) if values else _UNKNOWN_GRID

    def axis(self) -> tuple[int, ...] | None:
        """Strictly increasing counts, at least two; None where they are not."""
        value = self.value
        if not isinstance(value, list) or len(value) < 2 or not all(map(_is_count, value)):
            self.fault(_found(value), "at least two whole numbers")
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
