"""The raw file: JSON lines, a head and one row for each case, written so that nothing measured is ever lost.

A row is appended, flushed and synced as soon as it is measured. A process that is killed in between leaves at most a
torn last line, which a reader passes over and the next run cuts off.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

from calibrate.microbenchmark.case import Case
from calibrate.microbenchmark.machine import Condition, Machine
from calibrate.microbenchmark.plan import Plan
from calibrate.microbenchmark.rank import Rank
from calibrate.microbenchmark.row import Row
from capsim.catalog import Model
from capsim.cost.profile_tables import MODEL_SHAPES
from capsim.errors import BadInput, Fault

SCHEMA_VERSION = 1
HEAD, CONDITION = "head", "condition"
_MOST_FAULTS = 20


@dataclass(frozen=True)
class Head:
    """The first line.

    Attributes:
        machine: what was measured on.
        model: catalog name or path as the user gave it; `shapes` are its sizes.
        shapes: by the names in `MODEL_SHAPES`.
        dtype: of the weights.
        kv_dtype: of the KV cache.
        tensor_parallel_size: ranks.
        plan: density and limits.
        date: ISO 8601.
    """

    machine: Machine
    model: str
    shapes: Mapping[str, int]
    dtype: str
    kv_dtype: str
    tensor_parallel_size: int
    plan: Mapping[str, Any]
    date: str

    def members(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "kind": HEAD,
            "schema_version": SCHEMA_VERSION,
            **vars(self),
            "machine": self.machine.members(),
        }

    @classmethod
    def of(cls, members: Mapping[str, Any]) -> Head:
        """From the members.

        Raises:
            KeyError, TypeError: they are those of no head.
        """
        names = ("model", "shapes", "dtype", "kv_dtype", "tensor_parallel_size", "plan", "date")
        return cls(machine=Machine.of(members["machine"]), **{name: members[name] for name in names})

    def differences(self, other: Head) -> list[str]:
        """What keeps rows of the other from standing beside rows of this, one sentence each."""
        pairs: dict[str, tuple[Any, Any]] = {
            name: (getattr(self, name), getattr(other, name))
            for name in ("dtype", "kv_dtype", "tensor_parallel_size")
        }
        planned = _flat(other.plan)
        pairs |= {f"plan {name}": (mine, planned.get(name)) for name, mine in _flat(self.plan).items()}
        pairs |= {f"model {name}": (size, other.shapes.get(name)) for name, size in self.shapes.items()}
        theirs = other.machine.members()
        pairs |= {f"machine {name}": (mine, theirs[name]) for name, mine in self.machine.members().items()}
        return [
            f"{name} was {first}, and is {second}"
            for name, (first, second) in pairs.items()
            if first != second
        ]


@dataclass(frozen=True)
class Raw:
    """A file as read.

    Attributes:
        source: the file.
        head: its first line.
        rows: of cases, in order.
        conditions: of the machine on the way.
        whole: bytes up to the end of the last whole line.
    """

    source: str
    head: Head
    rows: tuple[Row, ...]
    conditions: tuple[Condition, ...]
    whole: int

    @property
    def done(self) -> frozenset[Case]:
        """Cases that need no measuring."""
        return frozenset(row.case for row in self.rows)

    def plan(self, model: Model) -> Plan:
        """What was to be measured.

        Raises:
            BadInput: the model is another one, or the head's plan is not one of this version.
        """
        shapes = shapes_of(model)
        faults = [
            Fault(
                self.source, f"was measured with {name} {self.head.shapes.get(name)}, {model.name} has {size}"
            )
            for name, size in shapes.items()
            if self.head.shapes.get(name) != size
        ]
        if faults:
            raise BadInput(*faults)
        try:
            return Plan.of(Rank(model, self.head.tensor_parallel_size, self.head.dtype), self.head.plan)
        except (KeyError, StopIteration) as error:
            raise BadInput(
                Fault(self.source, "its plan is not one of this version", "plan", "", "", 1, 1)
            ) from error


def _flat(plan: Mapping[str, Any]) -> dict[str, Any]:
    """A plan's density and each of its limits, by name."""
    return {"density": plan.get("density"), **plan.get("limits", {})}


def shapes_of(model: Model) -> dict[str, int]:
    """Sizes by the names in `MODEL_SHAPES`."""
    return {name: getattr(model, name) for name in MODEL_SHAPES}


class Writer:
    """Appends lines to a raw file; a context manager.

    Args:
        path: the file; its folder exists.
        whole: bytes to keep of what is there, as `Raw.whole` says.
    """

    def __init__(self, path: Path, whole: int = 0) -> None:
        self._path, self._whole = path, whole

    def __enter__(self) -> Writer:
        try:
            self._file: TextIO = self._path.open("a", encoding="utf-8")
        except OSError as error:
            raise BadInput(Fault(str(self._path), f"cannot be written: {error.strerror or error}")) from error
        self._file.truncate(self._whole)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def head(self, head: Head) -> None:
        """Append the first line."""
        self._line(head.members())

    def row(self, row: Row) -> None:
        """Append a row; it is on the disk when this returns."""
        self._line(row.members())

    def condition(self, condition: Condition) -> None:
        """Append how the machine feels."""
        self._line({"kind": CONDITION, **condition.members()})

    def _line(self, members: Mapping[str, Any]) -> None:
        self._file.write(json.dumps(members, ensure_ascii=False, allow_nan=False) + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())


def read_raw(path: Path) -> Raw:
    """Read a raw file.

    Raises:
        BadInput: it cannot be read, its head is not one of this version, or lines other than a torn last one are
            damaged, with the place of each.
    """
    source = str(path)
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise BadInput(Fault(source, f"cannot be read: {error.strerror or error}")) from error
    whole = raw.rfind(b"\n") + 1
    lines = raw[:whole].split(b"\n")[:-1]
    # What is no raw file at all is refused once, not line by line.
    first = _value(source, 1, lines[0], []) if lines else None
    if first is None or first.get("kind") != HEAD:
        raise BadInput(Fault(source, "has no head", "", "a file of capsim calibrate run", "", 1, 1))
    faults: list[Fault] = []
    values = [_value(source, number, line, faults) for number, line in enumerate(lines, 1)]
    if faults:
        raise BadInput(*faults[:_MOST_FAULTS])
    whole_values = [value for value in values if value is not None]
    head = _head(source, whole_values[0])
    rows, conditions = _rows(source, whole_values)
    return Raw(source, head, rows, conditions, whole)


def _value(source: str, number: int, line: bytes, faults: list[Fault]) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        column = error.colno if isinstance(error, json.JSONDecodeError) else 1
        faults.append(Fault(source, "is no JSON", "", "one object a line", "", number, column))
        return None
    if not isinstance(value, dict):
        faults.append(Fault(source, "is no object", "", "one object a line", "", number, 1))
        return None
    return value


def _head(source: str, members: Mapping[str, Any]) -> Head:
    version = members.get("schema_version")
    if version != SCHEMA_VERSION:
        what = f"version {version!r}"
        raise BadInput(Fault(source, what, "schema_version", str(SCHEMA_VERSION), "", 1, 1))
    try:
        return Head.of(members)
    except (KeyError, TypeError) as error:
        raise BadInput(
            Fault(source, f"{error} is missing", "", "a file of capsim calibrate run", "", 1, 1)
        ) from error


def _rows(source: str, values: Sequence[Mapping[str, Any]]) -> tuple[tuple[Row, ...], tuple[Condition, ...]]:
    rows: list[Row] = []
    conditions: list[Condition] = []
    faults: list[Fault] = []
    for number, value in enumerate(values[1:], 2):
        found = _row(source, number, value, faults)
        if isinstance(found, Condition):
            conditions.append(found)
        elif found is not None:
            rows.append(found)
    if faults:
        raise BadInput(*faults[:_MOST_FAULTS])
    return tuple(rows), tuple(conditions)


def _row(source: str, number: int, value: Mapping[str, Any], faults: list[Fault]) -> Row | Condition | None:
    try:
        return _condition(value) if value.get("kind") == CONDITION else Row.of(value, number)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        what = f"is no row: {error}"
        faults.append(Fault(source, what, "", "kind, name, shape and what was found", "", number, 1))
        return None


def _condition(members: Mapping[str, Any]) -> Condition:
    known = {name: value for name, value in members.items() if name != "kind"}
    known["slowdowns"] = tuple(known.get("slowdowns", ()))
    known["others"] = tuple((int(pid), int(size)) for pid, size in known.get("others", ()))
    return Condition(**known)
