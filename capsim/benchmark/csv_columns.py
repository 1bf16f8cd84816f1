"""The reader of requests as rows of a CSV file whose columns somebody names."""

from __future__ import annotations

import csv
import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from capsim.benchmark.benchmark_file import BenchmarkFile
from capsim.benchmark.definitions import Definition
from capsim.benchmark.fields import MOST_SECONDS, MOST_TOKENS
from capsim.benchmark.record import ERROR, INCOMPLETE, OK, UNKNOWN, BenchmarkRun
from capsim.documents.dropped_row import DroppedRow, no_usable_row
from capsim.errors import BadInput, Fault

TOOL = "csv"
DEFINITION = Definition(TOOL)

TIMES = ("arrival", "ttft", "e2e")
TOKENS = ("prompt", "output", "cached")
COLUMNS = (*TIMES, *TOKENS, "status", "error")
"""What a column can be: times, tokens, ``ok``, ``error`` or ``incomplete``, the text of an error."""

UNITS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
"""Units of one second."""

_STATUS = {"ok": OK, "error": ERROR, "incomplete": INCOMPLETE}
_EXPECTED = "a CSV file with a line of column names"


@dataclass(frozen=True)
class _Row:
    times: dict[str, Decimal | None]
    tokens: dict[str, int]
    status: int
    error: str


def read_csv(path: str | Path, columns: Mapping[str, str] | None = None, unit: str = "s") -> BenchmarkRun:
    """Read one run from a CSV file.

    Empty cells are unknown. Without a status column, a row with an error's text is an error, one with an
    empty ``e2e`` cell is incomplete, and any other is ok. Rows that cannot be read are dropped and listed.

    Args:
        path: the file, comma-separated, with a line of column names.
        columns: the file's names by ours, which are `COLUMNS`; ``ttft`` or ``e2e`` is among them. None: the
            file uses our names, and its other columns are ignored.
        unit: of all times, a key of `UNITS`; arrivals are counted from the earliest, on any clock.

    Raises:
        BadInput: no such file or unit, a column that is missing or that is none of ours, or no usable row.
    """
    file = BenchmarkFile.read(path)
    if unit not in UNITS:
        raise BadInput(Fault(file.source, f"unit {unit!r} is unknown", expected=f"one of {', '.join(UNITS)}"))
    lines = _lines(file)
    first, header = next(lines, (1, []))
    places = _places(file, [name.strip() for name in header], first, columns)
    rows: list[_Row] = []
    dropped: list[DroppedRow] = []
    for line, cells in lines:
        row = _row(cells, places, MOST_SECONDS * UNITS[unit]) if any(cells) else None
        if isinstance(row, str):
            dropped.append(DroppedRow(line, row))
        elif row is not None:
            rows.append(row)
    if not rows:
        raise no_usable_row(file.source, dropped)
    return _run(file, rows, dropped, UNITS[unit], failures_visible=not {"status", "error"}.isdisjoint(places))


def recognizes(file: BenchmarkFile) -> bool:
    """The file's first line names a latency as capsim does."""
    _, header = next(_lines(file), (1, []))
    return not {"ttft", "e2e"}.isdisjoint(name.strip() for name in header)


def _lines(file: BenchmarkFile) -> Iterator[tuple[int, list[str]]]:
    """The line where each row ends, from 1, and its cells."""
    reader = csv.reader(file.text.splitlines())
    try:
        for cells in reader:
            yield reader.line_num, cells
    except csv.Error as error:
        fault = Fault(file.source, f"is damaged: {error}", expected=_EXPECTED, line=reader.line_num, column=1)
        raise BadInput(fault) from error


def _places(
    file: BenchmarkFile, header: list[str], line: int, columns: Mapping[str, str] | None
) -> dict[str, int]:
    """Position of each of our columns in the file."""
    wanted = {name: name for name in COLUMNS if name in header} if columns is None else columns
    faults = [
        Fault(
            file.source, "is no column of a run", name, f"one of {', '.join(COLUMNS)}", _near(name, COLUMNS)
        )
        for name in wanted
        if name not in COLUMNS
    ]
    found = ", ".join(name[:40] for name in header[:8])
    faults += [
        Fault(file.source, f"is missing; found columns {found}", theirs, "", _near(theirs, header), line, 1)
        for theirs in wanted.values()
        if theirs not in header
    ]
    if not faults and wanted.keys().isdisjoint({"ttft", "e2e"}):
        expected = "a column ttft or e2e, or a map that says which columns these are"
        faults = [Fault(file.source, f"tells no latency; found columns {found}", "", expected, "", line, 1)]
    if faults:
        raise BadInput(*faults)
    return {ours: header.index(theirs) for ours, theirs in wanted.items()}


def _near(name: str, names: tuple[str, ...] | list[str]) -> str:
    near = difflib.get_close_matches(name[:40], [other[:40] for other in names], n=1)
    return near[0] if near else ""


def _row(cells: list[str], places: Mapping[str, int], most: float) -> _Row | str:
    """One usable row, or the reason why it is not."""
    if len(cells) <= max(places.values()):
        return "too few columns"
    cell = {name: cells[place].strip() for name, place in places.items()}
    times: dict[str, Decimal | None] = {}
    for name in TIMES:
        time = _number(cell.get(name, ""))
        if isinstance(time, str) or (time is not None and not 0 <= time <= most):
            return f"{name} is not a time"
        times[name] = time
    tokens: dict[str, int] = {}
    for name in TOKENS:
        count = _number(cell.get(name, ""))
        if isinstance(count, str) or (
            count is not None and not (0 <= count <= MOST_TOKENS and count % 1 == 0)
        ):
            return f"{name} is not a whole number of tokens"
        tokens[name] = UNKNOWN if count is None else int(count)
    error = cell.get("error", "")
    status = _STATUS.get(cell["status"].lower()) if cell.get("status") else _status_of(error, times, places)
    return "status is not ok, error or incomplete" if status is None else _Row(times, tokens, status, error)


def _status_of(error: str, times: Mapping[str, Decimal | None], places: Mapping[str, int]) -> int:
    if error:
        return ERROR
    return INCOMPLETE if "e2e" in places and times["e2e"] is None else OK


def _number(text: str) -> Decimal | str | None:
    """A finite number, None for an empty cell, the text itself where it is neither."""
    if not text:
        return None
    try:
        number = Decimal(text)
    except InvalidOperation:
        return text
    return number if number.is_finite() else text


def _run(
    file: BenchmarkFile, rows: list[_Row], dropped: list[DroppedRow], unit: int, *, failures_visible: bool
) -> BenchmarkRun:
    # Decimals, because nanoseconds since 1970 do not fit a float64.
    sent = [row.times["arrival"] for row in rows if row.times["arrival"] is not None]
    start = min(sent, default=Decimal(0))

    def seconds(name: str, origin: Decimal = Decimal(0)) -> NDArray[np.float64]:
        times = [row.times[name] for row in rows]
        return np.array([np.nan if time is None else float((time - origin) / unit) for time in times])

    def tokens(name: str) -> NDArray[np.int64]:
        return np.array([row.tokens[name] for row in rows], dtype=np.int64)

    return BenchmarkRun(
        tool=TOOL,
        source=file.source,
        sha256=file.sha256,
        label=file.path.stem,
        arrival=seconds("arrival", start),
        ttft=seconds("ttft"),
        e2e=seconds("e2e"),
        prompt=tokens("prompt"),
        output=tokens("output"),
        cached=tokens("cached"),
        status=np.array([row.status for row in rows], dtype=np.int64),
        errors=tuple(row.error for row in rows),
        failures_visible=failures_visible,
        dropped=tuple(dropped),
    )
