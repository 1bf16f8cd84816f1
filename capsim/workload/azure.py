"""The reader of the Azure LLM inference traces."""

from __future__ import annotations

import difflib
import re
from pathlib import Path

import numpy as np

from capsim.documents.dropped_row import DroppedRow
from capsim.errors import BadInput, Fault
from capsim.workload.trace import Trace
from capsim.workload.trace_file import TraceFile

AZURE_COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
PRIORITY_COLUMN = "priority"
"""A column that the published traces do not have: whole numbers, the smaller first."""

_STAMP = re.compile(
    r"((?:19|20)\d\d-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d{1,9})?)\d*(?:Z|([+-])(\d\d):?(\d\d))?"
)
_MOST_DIGITS = 9
_PRIORITY = re.compile(rf"-?[0-9]{{1,{_MOST_DIGITS}}}")

_Row = tuple[int, int, int, int]
"""Nanoseconds since 1970, prompt tokens, output tokens, priority."""


def read_azure(path: str | Path) -> Trace:
    """Read a trace in one of the formats of the Azure LLM inference traces of 2023, 2024 and 2025.

    Columns are found by name; a file whose first line is already data is read by position. A column `priority`
    is read where there is one. Rows with no input or no output tokens, a bad number or a bad time are dropped
    and listed. The attribution is read from
    ``NAME.attribution.txt`` beside ``NAME.csv`` if that file exists.

    Raises:
        BadInput: no such file, not such a format, or no usable row.
    """
    file = TraceFile.read(path, "a CSV file")
    places, first_line, ignored = _columns(file)
    rows, dropped = _rows(file.lines, places, first_line)
    priority = [row[3] for row in rows] if len(places) > len(AZURE_COLUMNS) else None
    return file.trace([row[:3] for row in rows], dropped, ignored, priority=priority)


def _columns(file: TraceFile) -> tuple[tuple[int, ...], int, tuple[str, ...]]:
    """Positions of the columns that are read, index of the first line with data, names of the other columns."""
    first = file.first
    if file.lines[first].lstrip().startswith("{"):
        what = "is JSON Lines, not CSV; a trace with hash ids has the format mooncake"
        raise BadInput(Fault(file.source, what, expected=file.expected, line=first + 1, column=1))
    found = [name.strip().strip('"') for name in file.lines[first].split(",")]
    if len(found) == len(AZURE_COLUMNS) and _STAMP.fullmatch(found[0]):
        return (0, 1, 2), first, ()
    missing = [name for name in AZURE_COLUMNS if name not in found]
    if missing:
        raise BadInput(*(_missing_column(file.source, name, found, first + 1) for name in missing))
    read = [name for name in (*AZURE_COLUMNS, PRIORITY_COLUMN) if name in found]
    return tuple(map(found.index, read)), first + 1, tuple(name for name in found if name not in read)


def _missing_column(source: str, name: str, found: list[str], line: int) -> Fault:
    lower = {other[:40].lower(): other[:40] for other in found if other not in AZURE_COLUMNS}
    near = difflib.get_close_matches(name.lower(), lower, n=1)
    return Fault(
        source,
        f"is missing; found columns {', '.join(other[:40] for other in found[:8])}",
        key=name,
        expected=f"columns {', '.join(AZURE_COLUMNS)}",
        suggestion=lower[near[0]] if near else "",
        line=line,
        column=1,
    )


def _rows(lines: list[str], places: tuple[int, ...], first_line: int) -> tuple[list[_Row], list[DroppedRow]]:
    """Usable rows, and the others."""
    rows: list[_Row] = []
    dropped: list[DroppedRow] = []
    for number, line in enumerate(lines[first_line:], start=first_line + 1):
        if not line or line.isspace():
            continue
        row = _row(line.split(","), places)
        if isinstance(row, str):
            dropped.append(DroppedRow(number, row))
        else:
            rows.append(row)
    return rows, dropped


def _row(fields: list[str], places: tuple[int, ...]) -> _Row | str:
    """One usable row, or the reason why it is not."""
    if len(fields) <= max(places):
        return "too few columns"
    stamp, prompt, output, *rest = (fields[place].strip().strip('"') for place in places)
    for name, text in (("ContextTokens", prompt), ("GeneratedTokens", output)):
        if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS):
            return f"{name} is not a whole number of tokens"
        if int(text) == 0:
            return f"{name} is 0"
    if rest and not _PRIORITY.fullmatch(rest[0]):
        return f"{PRIORITY_COLUMN} is not a whole number"
    nanoseconds = _nanoseconds(stamp)
    if nanoseconds is None:
        return "TIMESTAMP is not a date and time"
    return nanoseconds, int(prompt), int(output), int(rest[0]) if rest else 0


def _nanoseconds(stamp: str) -> int | None:
    """Nanoseconds since 1970 of an ISO 8601 date and time, UTC if it names no zone; None if it is none."""
    match = _STAMP.fullmatch(stamp)
    if match is None:
        return None
    local, sign, hours, minutes = match.groups()
    try:
        nanoseconds = int(np.datetime64(local, "ns").view(np.int64))
    except ValueError:
        return None
    if sign is None:
        return nanoseconds
    offset = (int(hours) * 3600 + int(minutes) * 60) * 1_000_000_000
    return nanoseconds - offset if sign == "+" else nanoseconds + offset
