"""CSV tables of measurements: columns with the line of each row, and grids with their holes."""

from __future__ import annotations

import csv
import difflib
import gzip
import io
import math
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from capsim.errors import BadInput, Fault

GIT_LFS = b"version https://git-lfs.github.com/spec/"
_MOST_FAULTS = 20  # of one column; a column of the wrong kind has one in each row


@dataclass(frozen=True)
class Table:
    """Rows of one CSV file.

    Attributes:
        source: the file as messages name it.
        columns: texts by column name, all of the same length.
        lines: line of the file where each row stands, from 1, shape (rows,).
    """

    source: str
    columns: Mapping[str, tuple[str, ...]]
    lines: NDArray[np.int64]

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.lines)

    def numbers(self, column: str) -> NDArray[np.float64]:
        """A column of finite numbers that are not negative, shape (rows,).

        Raises:
            BadInput: every cell that is none, with its line.
        """
        return self._parsed(column, _number, "a number that is not negative", np.float64)

    def counts(self, column: str) -> NDArray[np.int64]:
        """A column of whole numbers that are not negative, shape (rows,).

        Raises:
            BadInput: every cell that is none, with its line.
        """
        return self._parsed(column, _count, "a whole number that is not negative", np.int64)

    def texts(self, column: str) -> NDArray[np.str_]:
        """A column as it stands in the file, shape (rows,)."""
        return np.asarray(self.columns[column], dtype=np.str_)

    def where(self, mask: NDArray[np.bool_]) -> Table:
        """The rows of a mask of shape (rows,)."""
        kept = np.flatnonzero(mask).tolist()
        columns = {name: tuple(cells[row] for row in kept) for name, cells in self.columns.items()}
        return Table(self.source, columns, self.lines[mask])

    def only(self, column: str, wanted: str | None = None) -> str:
        """The one value that a column holds; figures for several precisions or engines must not be mixed.

        Args:
            column: a column of texts.
            wanted: what it must be, where that is known.

        Raises:
            BadInput: the first row that differs from the first, or from `wanted`; or there are no rows.
        """
        cells = self.columns[column]
        if not cells:
            raise BadInput(Fault(self.source, "no row is left", column, wanted or "at least one"))
        first = cells[0] if wanted is None else wanted
        for row, cell in enumerate(cells):
            if cell != first:
                what = f"{cell!r} stands beside {first!r}" if wanted is None else f"{cell!r}"
                raise BadInput(self.fault(row, column, what, first if wanted else "one value in all rows"))
        return first

    def fault(self, row: int, column: str, what: str, expected: str = "", suggestion: str = "") -> Fault:
        """A fault at a cell; its column in the file is the number of the field, from 1."""
        place = list(self.columns).index(column) + 1
        return Fault(self.source, what, column, expected, suggestion, int(self.lines[row]), place)

    def _parsed(self, column: str, parse: Callable[[str], Any], expected: str, kind: Any) -> NDArray[Any]:
        cells, faults = [], []
        for row, cell in enumerate(self.columns[column]):
            value = parse(cell)
            cells.append(value)
            if value is None:
                faults.append(self.fault(row, column, f"{cell!r} is no such number", expected))
        if faults:
            more = [f"{self.source}: {len(faults) - _MOST_FAULTS} more of these in column {column}"]
            raise BadInput(*faults[:_MOST_FAULTS], *(more if len(faults) > _MOST_FAULTS else []))
        return np.asarray(cells, dtype=kind)


def read_table(path: Path, required: Sequence[str], delimiter: str = ",") -> Table:
    """Read a CSV file with a header line.

    Args:
        path: the file.
        required: columns that it must have; it may have others.
        delimiter: between cells.

    Raises:
        BadInput: the file cannot be read, is a Git LFS pointer, is empty, lacks a column, has a row with too few or
            too many cells, or ends inside a line.
    """
    source, text = str(path), read_text(path)
    rows = _rows(text, source, delimiter)
    header = [name.strip() for name in next(rows, (1, []))[1]]
    if not any(header):
        raise BadInput(Fault(source, "is empty", "", f"a header with {', '.join(required)}", "", 1, 1))
    faults = _header_faults(source, header, required)
    kept: list[list[str]] = []
    lines: list[int] = []
    for line, cells in rows:
        if len(cells) == len(header):
            kept.append([cell.strip() for cell in cells])
            lines.append(line)
        elif cells:
            faults.append(_width_fault(source, line, len(cells), len(header)))
    if not faults and not kept:
        faults.append(Fault(source, "has a header and no rows"))
    if not faults and not text.endswith(("\n", "\r")):
        what = "the last line has no end: the file may be cut off inside a number"
        faults.append(Fault(source, what, "", "a line end (add one if the file is whole)", "", lines[-1], 1))
    if faults:
        raise BadInput(*faults[:_MOST_FAULTS])
    columns = {name: tuple(row[place] for row in kept) for place, name in enumerate(header)}
    return Table(source, columns, np.asarray(lines, dtype=np.int64))


def _rows(text: str, source: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Each row's last line and its cells."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        for cells in reader:
            yield reader.line_num, cells
    except csv.Error as error:  # a cell without end
        line = max(1, reader.line_num)
        raise BadInput(Fault(source, f"is no CSV: {error}", "", "cells of a table", "", line, 1)) from error


def read_text(path: Path) -> str:
    """The text of a data file, unpacked where its name ends in ``.gz``.

    Raises:
        BadInput: it cannot be read or unpacked, is a Git LFS pointer or is not UTF-8.
    """
    try:
        raw = path.read_bytes()
        if path.suffix == ".gz" and not raw.startswith(GIT_LFS):
            raw = gzip.decompress(raw)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise BadInput(Fault(str(path), f"is damaged as gzip: {error}")) from error
    except OSError as error:
        raise BadInput(Fault(str(path), f"cannot be read: {error.strerror or error}")) from error
    if raw.startswith(GIT_LFS):
        what = "is a Git LFS pointer, not the data itself"
        raise BadInput(Fault(str(path), what, expected="the file that `git lfs pull` fetches"))
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        what = f"byte 0x{raw[error.start]:02x} is not UTF-8"
        raise BadInput(Fault(str(path), what, "", "a UTF-8 text file", "", line, 1)) from error


def pivot(
    axes: Mapping[str, ArrayLike], values: ArrayLike
) -> tuple[dict[str, tuple[int, ...]], NDArray[Any]]:
    """Rows of measurements as a grid; repeated rows give their median, cells without a row are NaN.

    Args:
        axes: whole numbers by axis name, outermost first, each of shape (rows,).
        values: shape (rows,).

    Returns:
        The sorted counts by axis name, and the grid, shape: the lengths of the axes.
    """
    columns = [np.asarray(axis, dtype=np.int64) for axis in axes.values()]
    measured = np.asarray(values, dtype=np.float64)
    counts = [np.unique(column) for column in columns]
    shape = tuple(len(axis) for axis in counts)
    places = tuple(np.searchsorted(axis, column) for axis, column in zip(counts, columns, strict=True))
    cells = np.ravel_multi_index(places, shape)
    order = np.lexsort((measured, cells))
    found, first, many = np.unique(cells[order], return_index=True, return_counts=True)
    middle = measured[order]
    grid = np.full(shape, math.nan)
    grid.flat[found] = (middle[first + (many - 1) // 2] + middle[first + many // 2]) / 2
    named = {name: tuple(axis.tolist()) for name, axis in zip(axes, counts, strict=True)}
    return named, grid


def holes(axes: Mapping[str, Sequence[float]], grid: NDArray[Any]) -> list[dict[str, float]]:
    """The cells of a grid that hold no measurement, as counts by axis name."""
    cells = product(*axes.values())
    missing = np.isnan(grid).ravel()
    return [dict(zip(axes, cell, strict=True)) for cell, hole in zip(cells, missing, strict=True) if hole]


def hole_text(found: Iterable[Mapping[str, float]], shown: int = 3) -> str:
    """Holes as a message lists them: the first few, and how many more."""
    texts = ["/".join(f"{name} {count:g}" for name, count in hole.items()) for hole in found]
    more = f" and {len(texts) - shown} more" if len(texts) > shown else ""
    return ", ".join(texts[:shown]) + more


def closest(name: str, known: Iterable[str]) -> str:
    """The known name that was probably meant, or empty."""
    found = difflib.get_close_matches(name, list(known), 1)
    return found[0] if found else ""


def _header_faults(source: str, header: Sequence[str], required: Sequence[str]) -> list[Fault]:
    faults = []
    for name in required:
        if name not in header:
            others = [column for column in header if column not in required]
            close = difflib.get_close_matches(name, others, 1)
            what = f"the column {name} is missing"
            if close:
                what += f" (there is {close[0]})"
            faults.append(Fault(source, what, "", f"a header with {', '.join(required)}", "", 1, 1))
    repeated = [name for name in dict.fromkeys(header) if header.count(name) > 1]
    faults += [Fault(source, "this column stands twice", name, "", "", 1, 1) for name in repeated]
    return faults


def _width_fault(source: str, line: int, found: int, wanted: int) -> Fault:
    what = f"{found} cells where the header has {wanted}"
    if found < wanted:
        what += ": the file may be cut off here"
    return Fault(source, what, line=line, column=1)


def _number(cell: str) -> float | None:
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if 0 <= value < math.inf else None


def _count(cell: str) -> int | None:
    value = _number(cell)
    return int(value) if value is not None and value == int(value) else None
