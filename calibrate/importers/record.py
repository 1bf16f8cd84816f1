"""Result files of benchmarks as JSON objects with the line of each, for checks that report every fault."""

from __future__ import annotations

import difflib
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from calibrate.table import read_text
from capsim.errors import BadInput, Fault

_MISSING = object()
_MOST_FAULTS = 20  # of one file; a file of the wrong kind has some in each record
_JSON = json.JSONDecoder()
MOST = 10**12
"""Largest whole number that is taken for tokens: far above any step, far below what arithmetic cannot hold."""
MOST_SEQUENCES = 10**6
"""Largest number of sequences in a step, each of which a source may make an item of its own."""


@dataclass(frozen=True)
class Record:
    """One JSON object of a file.

    A check that fails adds to `faults` and returns a stand-in of the right type.

    Attributes:
        source: the file.
        line: where the top-level value that holds the object begins, from 1.
        column: likewise.
        path: from that value to the object, e.g. ``ranks[0].``.
        members: by key.
        faults: shared by all records of a file.
    """

    source: str
    line: int
    column: int
    path: str
    members: Mapping[str, Any]
    faults: list[Fault] = field(repr=False)

    def __contains__(self, key: str) -> bool:
        """Whether there is such a member that is not null."""
        return self.members.get(key) is not None

    def fault(self, key: str, what: str, expected: str = "", suggestion: str = "") -> None:
        """Add a fault of a member."""
        place = self.path + key
        self.faults.append(Fault(self.source, what, place, expected, suggestion, self.line, self.column))

    def count(self, key: str, least: int = 0, most: int = MOST) -> int:
        """A whole number from `least` to `most`."""
        value = self._get(key)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and value >= least:
            if value <= most:
                return value
            self._refuse(key, value, f"a whole number of at most {most}")
            return max(1, least)
        self._refuse(key, value, f"a whole number of at least {least}")
        return max(1, least)

    def duration(self, key: str) -> float:
        """A number above 0."""
        value = self._get(key)
        if (
            isinstance(value, (int, float))
            and not isinstance(value, bool)
            and 0 < value <= sys.float_info.max
        ):
            return float(value)
        self._refuse(key, value, "a number above 0")
        return 1.0

    def number(self, key: str, otherwise: float) -> float:
        """A number that is not negative, or what holds where there is none."""
        if key not in self:
            return otherwise
        value = self._get(key)
        if (
            isinstance(value, (int, float))
            and not isinstance(value, bool)
            and 0 <= value <= sys.float_info.max
        ):
            return float(value)
        self._refuse(key, value, "a number that is not negative")
        return otherwise

    def record(self, key: str) -> Record:
        """The object that is a member."""
        value = self._get(key)
        if isinstance(value, dict):
            return self._inside(f"{key}.", value)
        self._refuse(key, value, "an object")
        return Record(self.source, self.line, self.column, f"{self.path}{key}.", {}, [])

    def records(self, key: str) -> list[Record]:
        """The objects of a list that is a member, at least one."""
        value = self._get(key)
        if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
            return [self._inside(f"{key}[{index}].", item) for index, item in enumerate(value)]
        self._refuse(key, value, "a list of objects")
        return []

    def holding(self, key: str) -> Iterator[Record]:
        """The object itself, or those at any depth inside it, that have a member of this name."""
        if key in self.members:
            yield self
            return
        for name, value in self.members.items():
            items = {f"{name}.": value} if isinstance(value, dict) else {}
            if isinstance(value, list):
                items = {f"{name}[{i}].": item for i, item in enumerate(value) if isinstance(item, dict)}
            for path, item in items.items():
                yield from self._inside(path, item).holding(key)

    def _inside(self, path: str, members: Mapping[str, Any]) -> Record:
        return Record(self.source, self.line, self.column, self.path + path, members, self.faults)

    def _get(self, key: str) -> Any:
        return self.members.get(key, _MISSING)

    def _refuse(self, key: str, value: Any, expected: str) -> None:
        if value is _MISSING:
            close = difflib.get_close_matches(key, self.members, 1)
            self.fault(key, "is missing", expected, close[0] if close else "")
        else:
            text = repr(value)
            self.fault(key, text if len(text) <= 40 else f"{text[:37]}...", expected)


def read_records(path: Path) -> list[Record]:
    """The objects of a file that is a JSON list of them, one object, or one object a line (JSONL).

    Raises:
        BadInput: the file cannot be read, is a Git LFS pointer, is empty, holds something else, or ends inside a value.
    """
    source, text = str(path), read_text(path)
    faults: list[Fault] = []
    values = list(_values(text, source))
    if not values:
        raise BadInput(Fault(source, "is empty", "", "JSON objects", "", 1, 1))
    records = []
    line = before = 0
    for start, value in values:
        line, before = line + text.count("\n", before, start), start
        here, column = line + 1, start - text.rfind("\n", 0, start)
        if isinstance(value, dict):
            records.append(Record(source, here, column, "", value, faults))
        else:
            faults.append(Fault(source, f"{json.dumps(value)[:40]}", "", "an object", "", here, column))
    refuse(faults)
    return records


def refuse(faults: list[Fault]) -> None:
    """Raise what was found, if anything was.

    Raises:
        BadInput: the first faults, and how many more there are.
    """
    if len(faults) > _MOST_FAULTS:
        raise BadInput(
            *faults[:_MOST_FAULTS], f"{faults[0].source}: {len(faults) - _MOST_FAULTS} more faults"
        )
    if faults:
        raise BadInput(*faults)


def _values(text: str, source: str) -> Iterator[tuple[int, Any]]:
    """Values of a list, or one after another, each with the place where it begins."""
    place = _blank(text, 0)
    in_list = text.startswith("[", place)
    place = _blank(text, place + 1) if in_list else place
    while place < len(text) and not (in_list and text.startswith("]", place)):
        try:
            value, end = _JSON.raw_decode(text, place)
        except json.JSONDecodeError as error:
            raise BadInput(_broken(text, source, error.pos, error.msg)) from error
        except (
            ValueError,
            RecursionError,
        ) as error:  # a number of thousands of digits, or brackets in brackets
            raise BadInput(_broken(text, source, place, "a number too long or nested too deep")) from error
        yield place, value
        place = _blank(text, end)
        if in_list and not text.startswith("]", place):
            if not text.startswith(",", place):
                raise BadInput(_broken(text, source, place, "the list has no end"))
            place = _blank(text, place + 1)
    if in_list and not text.startswith("]", place):
        raise BadInput(_broken(text, source, place, "the list has no end"))


def _broken(text: str, source: str, place: int, why: str) -> Fault:
    line, column = _place(text, place)
    # A value that breaks off leaves nothing but perhaps a few letters of a word behind the fault.
    cut = not text[place:].strip() or why.startswith("Unterminated")
    what = f"not valid JSON: {why}" + (": the file may be cut off here" if cut else "")
    return Fault(source, what, "", "", "", line, column)


def _blank(text: str, place: int) -> int:
    while place < len(text) and text[place] in " \t\r\n":
        place += 1
    return place


def _place(text: str, at: int) -> tuple[int, int]:
    return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
