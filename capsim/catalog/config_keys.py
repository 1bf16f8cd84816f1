from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from capsim.catalog.schema import shown
from capsim.documents import Document
from capsim.errors import BadInput, Fault


class ConfigKeys:
    """Keys of a ``config.json``, checked as they are read; faults are collected, so that one run reports them all.

    Args:
        document: the file.
        inside: the mapping whose keys are read.
    """

    def __init__(self, document: Document, inside: tuple[str, ...] = ()) -> None:
        self._document = document
        self._inside = inside
        self._faults: dict[str, Fault] = {}
        self._inner: list[ConfigKeys] = []
        data: Any = document.data
        for key in inside:
            data = data.get(key) if isinstance(data, dict) else None
        self._data: dict[str, Any] = data if isinstance(data, dict) else {}

    def __iter__(self) -> Iterator[str]:
        return iter(str(key) for key in self._data)

    @property
    def faults(self) -> tuple[Fault, ...]:
        """What was found so far, also in mappings inside."""
        return (*self._faults.values(), *(fault for inner in self._inner for fault in inner.faults))

    def inner(self, key: str) -> ConfigKeys:
        """Keys of a mapping inside this one; empty, so that all its keys are missing, where there is none."""
        inner = ConfigKeys(self._document, (*self._inside, key))
        self._inner.append(inner)
        return inner

    def get(self, key: str, default: Any = None) -> Any:
        """Value as it stands in the file; `default` where it is missing or null."""
        value = self._data.get(key)
        return default if value is None else value

    def count(self, key: str, default: int | None = None) -> int:
        """A whole number of at least 0, and of at least 1 without a default; 1 where it is at fault."""
        value = self.get(key, default)
        if isinstance(value, int) and not isinstance(value, bool) and value >= (default is None):
            return value
        if value is None:
            self._note(key, "is missing", "a whole number", of_key=True)
        else:
            self._note(key, f"{shown(value)} is no size", f"a whole number, at least {int(default is None)}")
        return 1

    def flag(self, key: str, default: bool) -> bool:
        """True or false; `default` where it is missing or at fault."""
        value = self.get(key, default)
        if isinstance(value, bool):
            return value
        self._note(key, f"{shown(value)} is neither true nor false", "true or false")
        return default

    def words(self, key: str, known: Sequence[object], length: int) -> list[Any]:
        """A list of `length` words or numbers, each a known one; empty where it is missing or at fault."""
        value = self.get(key)
        if value is None:
            return []
        if not isinstance(value, list) or len(value) != length:
            self._note(key, f"{shown(value)} of another length than the layers", f"a list of {length}")
            return []
        strange = next((word for word in value if word not in known), None)
        if strange is not None:
            self._note(
                key, f"{shown(strange)} is not understood", f"each one of {', '.join(map(str, known))}"
            )
            return []
        return value

    def word(self, key: str, known: Sequence[str], default: str) -> str:
        """One of the known words; `default` where it is missing or at fault."""
        value = self.get(key, default)
        if value in known:
            return str(value)
        self._note(key, f"{shown(value)} is not understood", f"one of {', '.join(known)}")
        return default

    def pattern(self, key: str, symbols: Sequence[str], length: int) -> str:
        """A text with one of the known symbols for each of `length` layers; empty where it is missing or at fault."""
        value = self.get(key)
        if not isinstance(value, str):
            what = "is missing" if value is None else f"{shown(value)} is no pattern"
            self._note(key, what, f"{length} symbols, one a layer", of_key=value is None)
            return ""
        if len(value) != length:
            self._note(key, f"has {len(value)} symbols for {length} layers", f"{length} symbols, one a layer")
            return ""
        strange = next((symbol for symbol in value if symbol not in symbols), None)
        if strange is not None:
            self._note(key, f"{shown(strange)} is not understood", f"each one of {' '.join(symbols)}")
            return ""
        return value

    def positions(self, key: str, layers: int) -> tuple[int, ...]:
        """Indices of the layers that a list counts from 1; empty where it is missing or at fault."""
        value = self.get(key)
        if not isinstance(value, list):
            what = "is missing" if value is None else f"{shown(value)} is no list"
            self._note(key, what, "a list of layers, counted from 1", of_key=value is None)
            return ()
        strange = next((each for each in value if each not in range(1, layers + 1)), None)
        if strange is not None:
            self._note(key, f"{shown(strange)} is no layer", f"1 to {layers}")
            return ()
        return tuple(sorted(each - 1 for each in value))

    def complement(self, key: str, others: Sequence[int], layers: int) -> None:
        """Refuse a list of layers, counted from 1, that is not all but the others."""
        listed = self.positions(key, layers)
        if not self.faults and sorted((*listed, *others)) != list(range(layers)):
            self._note(key, "does not list the other layers, each once", f"{layers - len(others)} layers")

    def only(self, key: str, value: object) -> None:
        """Refuse any other value than this one, which is also what a missing key means."""
        if self.get(key, value) != value:
            self._note(key, f"{shown(self.get(key))} is not understood", f"{value}, or nothing")

    def refuse(self, keys: Iterable[str]) -> None:
        """Note keys that are not understood."""
        for key in keys:
            self._note(key, "is not understood, and may change the weights or the KV cache", of_key=True)

    def _note(self, key: str, what: str, expected: str = "", *, of_key: bool = False) -> None:
        fault = self._document.fault((*self._inside, key), what, expected, of_key=of_key)
        self._faults.setdefault(key, fault)


def raise_faults(*sections: ConfigKeys) -> None:
    """Raise what was found in any of the sections of a file.

    Raises:
        BadInput: with every fault, each once.
    """
    faults = {fault: None for section in sections for fault in section.faults}
    if faults:
        raise BadInput(*faults)
