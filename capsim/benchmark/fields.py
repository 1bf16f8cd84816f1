"""Keys of a JSON object in a benchmark's file, read with checks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from capsim.benchmark.benchmark_file import BenchmarkFile
from capsim.benchmark.places import KeyPath
from capsim.benchmark.record import UNKNOWN
from capsim.errors import BadInput, Fault

MOST_TOKENS = 10**9
"""Tokens of one request above which a number is taken for a mistake."""

MOST_SECONDS = 1e12
"""Above which a time is taken for a mistake, e.g. nanoseconds that were read as seconds; 30,000 years."""


@dataclass(frozen=True)
class Fields:
    """One object of a file; reading a value that is not what it must be raises BadInput with its place.

    A key that is missing and one that is null are the same: the file does not tell.

    Attributes:
        file: the file.
        value: which of the file's values the object is in.
        path: where in that value.
        data: the object.
    """

    file: BenchmarkFile
    value: int
    path: KeyPath
    data: dict[str, Any]

    @classmethod
    def of(cls, file: BenchmarkFile, value: int = 0) -> Fields:
        """One of the file's values.

        Raises:
            BadInput: it is no object.
        """
        data = file.values[value]
        if not isinstance(data, dict):
            raise BadInput(file.fault(value, (), f"is {_kind(data)}", "a JSON object"))
        return cls(file, value, (), data)

    def refuse(self, key: str | int | KeyPath, what: str, expected: str = "") -> NoReturn:
        """Raise BadInput at a key, or at a path below the object."""
        below = key if isinstance(key, tuple) else (key,)
        raise BadInput(self.file.fault(self.value, (*self.path, *below), what, expected))

    def fault(self, key: str, what: str, expected: str = "") -> Fault:
        """A fault at a key of the object, for a reader that collects several."""
        return self.file.fault(self.value, (*self.path, key), what, expected)

    def has(self, key: str) -> bool:
        """The key is there and not null."""
        return self.data.get(key) is not None

    def text(self, key: str) -> str:
        """Text; empty where there is none. Halves of surrogate pairs, which nothing prints, become ``?``."""
        value = self.data.get(key)
        if value is None:
            return ""
        if not isinstance(value, str):
            self.refuse(key, f"is {_kind(value)}", "text")
        return _printable(value)

    def label(self, key: str) -> str:
        """Text that names a run, with the run's number where the file holds several."""
        several = f"run {self.value + 1}" if len(self.file.values) > 1 else ""
        return " ".join(part for part in (self.text(key), several) if part)

    def number(self, key: str, least: float = 0.0, most: float = MOST_SECONDS) -> float | None:
        """A finite number of at least `least` and at most `most`."""
        value = self.data.get(key)
        if value is None:
            return None
        if not _numeric(value):
            self.refuse(key, f"is {_kind(value)}", "a number")
        if not least <= value <= most:
            self.refuse(key, f"is {value!s:.40}", f"a number from {least:g} to {most:g}")
        return float(value)

    def whole(self, key: str, least: int = 0, most: int = MOST_TOKENS) -> int | None:
        """A whole number; 3.0 is one."""
        value = self.number(key, least, most)
        if value is None:
            return None
        if not value.is_integer():
            self.refuse(key, f"is {value:g}", "a whole number")
        return int(value)

    def rate(self, key: str, words: tuple[str, ...] = ("inf",)) -> float | None:
        """A rate above 0 per second; None where it is infinite or one of `words`, which are no one rate."""
        value = self.data.get(key)
        if (isinstance(value, str) and value in words) or value == math.inf:
            return None
        rate = self.number(key)
        if rate == 0:
            self.refuse(key, "is 0", "a rate above 0")
        return rate

    def below(self, key: str) -> Fields | None:
        """An object inside this one."""
        value = self.data.get(key)
        if value is None:
            return None
        if not isinstance(value, dict):
            self.refuse(key, f"is {_kind(value)}", "an object")
        return Fields(self.file, self.value, (*self.path, key), value)

    def objects(self, key: str) -> list[Fields]:
        """A list of objects; empty where there is none."""
        items = self.items(key) or []
        for index, item in enumerate(items):
            if not isinstance(item, dict):
                self.refuse((key, index), f"is {_kind(item)}", "an object")
        return [
            Fields(self.file, self.value, (*self.path, key, index), item) for index, item in enumerate(items)
        ]

    def items(self, key: str) -> list[Any] | None:
        """A list of anything."""
        value = self.data.get(key)
        if value is not None and not isinstance(value, list):
            self.refuse(key, f"is {_kind(value)}", "a list")
        return value

    def texts(self, key: str) -> tuple[str, ...] | None:
        """A list of texts; null is empty."""
        items = self.items(key)
        if items is None:
            return None
        for index, item in enumerate(items):
            if item is not None and not isinstance(item, str):
                self.refuse((key, index), f"is {_kind(item)}", "text")
        return tuple(_printable(item or "") for item in items)

    def seconds(self, key: str, least: float = 0.0, unit: float = 1.0) -> NDArray[np.float64] | None:
        """A list of times, shape (n,), in seconds; null is NaN.

        Args:
            key: of the list.
            least: the smallest, in the file's unit.
            unit: seconds of one unit of the file.
        """
        items = self.items(key)
        return None if items is None else self._times(items, (key,), least) * unit

    def lists_of_seconds(
        self, key: str, unit: float = 1.0
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]] | None:
        """A list of lists of times: all pooled, shape (k,), and where each list starts, shape (n + 1,)."""
        items = self.items(key)
        if items is None:
            return None
        for index, item in enumerate(items):
            if item is not None and not isinstance(item, list):
                self.refuse((key, index), f"is {_kind(item)}", "a list")
        lists: list[list[Any]] = [item or [] for item in items]
        starts = np.concatenate(([0], np.cumsum([len(each) for each in lists], dtype=np.int64)))
        pooled = list(chain.from_iterable(lists))
        times = _column(pooled)
        if times is None or not _within(times, 0.0, MOST_SECONDS).all() or np.isnan(times).any():
            for index, each in enumerate(lists):
                self._times(each, (key, index), 0.0, missing=False)
        assert times is not None
        return times * unit, starts.astype(np.int64)

    def tokens(self, key: str) -> NDArray[np.int64] | None:
        """A list of numbers of tokens, shape (n,); null is -1."""
        items = self.items(key)
        if items is None:
            return None
        numbers = self._times(items, (key,), 0.0, most=MOST_TOKENS)
        broken = ~np.isnan(numbers) & (numbers != np.floor(numbers))
        if broken.any():
            index = int(np.argmax(broken))
            self.refuse((key, index), f"is {items[index]}", "a whole number of tokens")
        return np.where(np.isnan(numbers), UNKNOWN, numbers).astype(np.int64)

    def _times(
        self,
        items: Sequence[Any],
        path: KeyPath,
        least: float,
        *,
        most: float = MOST_SECONDS,
        missing: bool = True,
    ) -> NDArray[np.float64]:
        """Numbers from `least` to `most`; null is NaN where `missing` allows it."""
        numbers = _column(items)
        if numbers is not None:
            good = _within(numbers, least, most)
            if good.all() and (missing or not np.isnan(numbers).any()):
                return numbers
        for index, item in enumerate(items):
            if item is None and missing:
                continue
            if not _numeric(item):
                self.refuse((*path, index), f"is {_kind(item)}", "a number")
            unknown = missing and isinstance(item, float) and math.isnan(item)
            if not unknown and not least <= item <= most:
                self.refuse((*path, index), f"is {item!s:.40}", f"a number from {least:g} to {most:g}")
        raise AssertionError(f"nothing wrong with {path}")


def _column(items: Sequence[Any]) -> NDArray[np.float64] | None:
    """Numbers and nulls as a column, null as NaN; None where there is anything else."""
    if not set(map(type, items)) <= {int, float, type(None)}:
        return None
    try:
        return np.array(items, dtype=np.float64)
    except OverflowError:
        return None


def _within(numbers: NDArray[np.float64], least: float, most: float) -> NDArray[np.bool_]:
    return np.isnan(numbers) | ((numbers >= least) & (numbers <= most))


def _numeric(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _printable(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")


def _kind(value: Any) -> str:
    """What a JSON value is, in words."""
    if isinstance(value, str):
        return f"the text {_printable(value[:40])!r}"
    if isinstance(value, bool | None):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, list):
        return "a list"
    return "an object" if isinstance(value, dict) else f"{value!s:.40}"
