from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from capsim.errors import Fault

KeyPath = tuple[str | int, ...]
"""Keys and list indices from the top of a document to a value, e.g. ``("fleet", "failures", 0, "at")``."""

Place = tuple[int, int]
"""Line and column, both from 1."""


@dataclass(frozen=True)
class Document:
    """A file's data, and the place of every key and value in it.

    Attributes:
        source: the file as it is named in messages.
        data: the top mapping: dicts with text keys, lists, text, numbers, booleans and None.
        key_places: place of each mapping key, by the path of its value.
        value_places: place of each value, by its path.
        overridden: paths whose value in `data` came from elsewhere, with the name of that source.
        sources: paths that another file states, with the name of that file.
    """

    source: str
    data: dict[str, Any]
    key_places: Mapping[KeyPath, Place]
    value_places: Mapping[KeyPath, Place]
    overridden: Mapping[KeyPath, str] = field(default_factory=dict)
    sources: Mapping[KeyPath, str] = field(default_factory=dict)

    def place(self, path: KeyPath, *, of_key: bool = False) -> Place:
        """Line and column of a value, or of its key; of the nearest thing around it where it is not there."""
        return self._nearest(path, of_key)[1]

    def origin(self, path: KeyPath) -> str:
        """Name of the file that states a value; of this one where the value came from elsewhere."""
        if any(path[: len(overridden)] == overridden for overridden in self.overridden):
            return self.source
        return self.sources.get(self._nearest(path, of_key=False)[0], self.source)

    def _nearest(self, path: KeyPath, of_key: bool) -> tuple[KeyPath, Place]:
        for length in range(len(path), 0, -1):
            places = self.key_places if of_key or length < len(path) else self.value_places
            found = places.get(path[:length]) or self.value_places.get(path[:length])
            if found is not None:
                return path[:length], found
        return (), self.value_places.get((), (1, 1))

    def fault(
        self, path: KeyPath, what: str, expected: str = "", suggestion: str = "", *, of_key: bool = False
    ) -> Fault:
        """A fault at the value of this path, or at its key, or at the override that the value came from."""
        key = dotted(path)
        for overridden, source in self.overridden.items():
            inside = path[: len(overridden)] == overridden
            above = overridden[: len(path)] == path and path not in self.value_places
            if inside or above:
                return Fault(source, what, "" if path == overridden else key, expected, suggestion)
        nearest, (line, column) = self._nearest(path, of_key)
        source = self.sources.get(nearest, self.source)
        return Fault(source, what, key, expected, suggestion, line, column)


def dotted(path: Iterable[str | int]) -> str:
    """A path as it is printed, e.g. ``fleet.failures[0].at``."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")
