"""Large JSON, read by the standard library: a hundred times as fast, and places only when somebody asks for one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from capsim.documents.document import KeyPath, Place
from capsim.documents.nodes import DEEPEST, Reader, compose, whole_number


def plain_json(text: str) -> dict[str, Any] | None:
    """The data of JSON text in which `parse` would find no fault; None where it must look closer."""
    try:
        data = json.loads(
            text, object_pairs_hook=_unique, parse_constant=_refuse_constant, parse_int=whole_number
        )
        text.encode("utf-8")
    except (ValueError, RecursionError):
        return None
    if not isinstance(data, dict) or _depth(data) > DEEPEST or "\\ud" in text.lower():
        return None
    return data


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) < len(pairs):
        raise ValueError("a key is stated twice")
    return data


def _refuse_constant(name: str) -> Any:
    raise ValueError(name)


def _depth(data: Any) -> int:
    items = data.values() if isinstance(data, dict) else data
    return 1 + max((_depth(item) for item in items if isinstance(item, dict | list)), default=0)


class LatePlaces:
    """Places of a text, found when they are first asked for."""

    def __init__(self, text: str, source: str) -> None:
        self._text = text
        self._source = source

    @cached_property
    def reader(self) -> Reader:
        """The text read once more, slowly."""
        reader = Reader(self._source)
        node = compose(self._text, self._source)
        if node is not None:
            reader.read(node, ())
        return reader


class PlacesLater(Mapping[KeyPath, Place]):
    """One of the two maps of a text whose places are found late."""

    def __init__(self, places: LatePlaces, name: str) -> None:
        self._places = places
        self._name = name

    def _map(self) -> dict[KeyPath, Place]:
        found: dict[KeyPath, Place] = getattr(self._places.reader, self._name)
        return found

    def __getitem__(self, path: KeyPath) -> Place:
        return self._map()[path]

    def __iter__(self) -> Iterator[KeyPath]:
        return iter(self._map())

    def __len__(self) -> int:
        return len(self._map())
