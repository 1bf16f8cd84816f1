"""Recorded requests: a trace and the reader of the Azure LLM inference traces."""

from __future__ import annotations

import difflib
import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from capsim.errors import BadInput, Fault

AZURE_COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
GIT_LFS_HEAD = "version https://git-lfs.github.com/spec/"
LINES_SHOWN = 5
"""Line numbers that one note spells out, so that a ruined file does not print itself."""

_STAMP = re.compile(
    r"((?:19|20)\d\d-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d{1,9})?)\d*(?:Z|([+-])(\d\d):?(\d\d))?"
)
_MOST_DIGITS = 9


@dataclass(frozen=True)
class DroppedRow:
    """A row that was not used: its line in the file, counted from 1, and why."""

    line: int
    reason: str


@dataclass(frozen=True, eq=False)
class Trace:
    """Recorded requests as columns, in order of arrival.

    Attributes:
        name: what to call it, the file's name without its ending.
        source: the file.
        sha256: of the file's bytes.
        attribution: whom to name with the data; empty if the file says nothing.
        arrival: seconds from the first request, shape (n,), float64, not decreasing.
        prompt, output: tokens, shape (n,), int64, each at least 1.
        rows: rows read, without header and blank lines.
        dropped: rows that were not used.
        out_of_order: used rows that were earlier than the used row before; they were sorted.
        ignored_columns: columns of the file that carry nothing for capsim.
    """

    name: str
    source: str
    sha256: str
    attribution: str
    arrival: NDArray[np.float64]
    prompt: NDArray[np.int64]
    output: NDArray[np.int64]
    rows: int
    dropped: tuple[DroppedRow, ...] = ()
    out_of_order: int = 0
    ignored_columns: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.arrival)

    @property
    def duration(self) -> float:
        """Seconds from the first to the last request."""
        return float(self.arrival[-1])

    @property
    def rate(self) -> float:
        """Mean rate, requests over duration, per second; NaN when all requests arrive at once."""
        return len(self) / self.duration if self.duration > 0 else float("nan")

    @property
    def notes(self) -> tuple[str, ...]:
        """What was changed on the way from the file to the columns, one sentence each."""
        file = Path(self.source).name
        lines_of: dict[str, list[int]] = {}
        for row in self.dropped:
            lines_of.setdefault(row.reason, []).append(row.line)
        notes = [
            f"{file}: dropped {len(lines)} of {self.rows} rows: {reason} ({_places(lines)})"
            for reason, lines in lines_of.items()
        ]
        if self.out_of_order:
            were = "row was" if self.out_of_order == 1 else "rows were"
            notes.append(f"{file}: {self.out_of_order} {were} earlier than the row before; sorted by time")
        if self.ignored_columns:
            notes.append(f"{file}: ignored columns {', '.join(self.ignored_columns)}")
        return tuple(notes)


def read_azure(path: str | Path) -> Trace:
    """Read a trace in one of the formats of the Azure LLM inference traces of 2023, 2024 and 2025.

    Columns are found by name; a file whose first line is already data is read by position. Rows with no input
    or no output tokens, a bad number or a bad time are dropped and listed. The attribution is read from
    ``NAME.attribution.txt`` beside ``NAME.csv`` if that file exists.

    Raises:
        BadInput: no such file, not such a format, or no usable row.
    """
    path = Path(path)
    source = str(path)
    try:
        content = path.read_bytes()
        text = content.decode("utf-8-sig")
    except OSError as error:
        raise BadInput(Fault(source, f"cannot be read: {error.strerror}", expected="a CSV file")) from error
    except UnicodeDecodeError as error:
        raise BadInput(
            Fault(source, f"is not text (byte {error.start})", expected="a CSV file in UTF-8")
        ) from error
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    places, first_line, ignored = _columns(source, lines)
    rows, dropped = _rows(lines, places, first_line)
    if not rows:
        faults = [Fault(source, row.reason, line=row.line, column=1) for row in dropped[:LINES_SHOWN]]
        raise BadInput(
            Fault(source, f"no usable row among {len(dropped)}", expected="at least one request"), *faults
        )
    table = np.array(rows, dtype=np.int64)
    nanoseconds = table[:, 0]
    order = np.argsort(nanoseconds, kind="stable")
    return Trace(
        name=path.name.split(".")[0],
        source=source,
        sha256=hashlib.sha256(content).hexdigest(),
        attribution=_attribution(path),
        arrival=(nanoseconds[order] - nanoseconds[order[0]]) / 1e9,
        prompt=table[order, 1],
        output=table[order, 2],
        rows=len(rows) + len(dropped),
        dropped=tuple(dropped),
        out_of_order=int(np.count_nonzero(np.diff(nanoseconds) < 0)),
        ignored_columns=ignored,
    )


def _columns(source: str, lines: list[str]) -> tuple[tuple[int, int, int], int, tuple[str, ...]]:
    """Positions of the three columns, index of the first line with data, names of the other columns."""
    first = next((index for index, line in enumerate(lines) if line.strip()), None)
    if first is None:
        raise BadInput(
            Fault(source, "is empty", expected=f"a CSV file with columns {', '.join(AZURE_COLUMNS)}")
        )
    if lines[first].startswith(GIT_LFS_HEAD):
        what = "is a Git LFS pointer, not the data; fetch the file with `git lfs pull`"
        raise BadInput(Fault(source, what, expected="a CSV file", line=first + 1, column=1))
    found = [name.strip().strip('"') for name in lines[first].split(",")]
    if len(found) == len(AZURE_COLUMNS) and _STAMP.fullmatch(found[0]):
        return (0, 1, 2), first, ()
    missing = [name for name in AZURE_COLUMNS if name not in found]
    if missing:
        raise BadInput(*(_missing_column(source, name, found, first + 1) for name in missing))
    stamp, prompt, output = (found.index(name) for name in AZURE_COLUMNS)
    return (stamp, prompt, output), first + 1, tuple(name for name in found if name not in AZURE_COLUMNS)


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


def _rows(
    lines: list[str], places: tuple[int, int, int], first_line: int
) -> tuple[list[tuple[int, int, int]], list[DroppedRow]]:
    """Usable rows as (nanoseconds since 1970, prompt, output), and the others."""
    rows: list[tuple[int, int, int]] = []
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


def _row(fields: list[str], places: tuple[int, int, int]) -> tuple[int, int, int] | str:
    """One usable row, or the reason why it is not."""
    if len(fields) <= max(places):
        return "too few columns"
    stamp, prompt, output = (fields[place].strip().strip('"') for place in places)
    for name, text in (("ContextTokens", prompt), ("GeneratedTokens", output)):
        if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS):
            return f"{name} is not a whole number of tokens"
        if int(text) == 0:
            return f"{name} is 0"
    nanoseconds = _nanoseconds(stamp)
    return (
        "TIMESTAMP is not a date and time" if nanoseconds is None else (nanoseconds, int(prompt), int(output))
    )


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


def _attribution(path: Path) -> str:
    beside = path.with_name(path.name.split(".")[0] + ".attribution.txt")
    return beside.read_text(encoding="utf-8").strip() if beside.is_file() else ""


def _places(lines: list[int]) -> str:
    shown = ", ".join(str(line) for line in lines[:LINES_SHOWN])
    return f"line{'s' if len(lines) > 1 else ''} {shown}{', ...' if len(lines) > LINES_SHOWN else ''}"
