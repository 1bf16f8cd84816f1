"""Scenarios that extend others: one document of a file and all that it is based on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from capsim import documents
from capsim.catalog.schema import shown
from capsim.documents import Document, KeyPath
from capsim.errors import BadInput, Fault
from capsim.scenario.named_file import BESIDE, find_file, missing_file

EXTENDS = "extends"
"""The key that names a file's base."""
SUFFIXES = (".yaml", ".yml", ".json")
CHOOSING = ("distribution", "source")
"""Keys that say which other keys a mapping has: where another is chosen, nothing of the base's mapping is left."""


@dataclass(frozen=True)
class Composition:
    """A scenario's document, and the files it comes from.

    Attributes:
        document: of all files together, without `EXTENDS`.
        files: names of the files, the scenario's own first.
    """

    document: Document
    files: tuple[str, ...]

    def rank(self, path: KeyPath) -> int:
        """The larger wins: 1 for what was given with the command, else the smaller the further the base."""
        overridden = self.document.overridden
        if any(path[: len(each)] == each for each in overridden):
            return 1
        return -self.files.index(self.document.origin(path))


def composed(path: Path, faults: list[Fault]) -> Composition:
    """Read a scenario and the chain of files that it extends.

    Mappings are merged; any other value replaces what the base states, and nothing (`null`) takes it away, so that
    the default holds. A mapping that chooses another distribution or source replaces the base's.

    Args:
        path: the scenario's file.
        faults: faults of content are appended here.

    Raises:
        BadInput: a file cannot be read, or a base is not there or extends what is based on it.
    """
    document = documents.load(path, faults=faults)
    files = [document.source]
    resolved = [path.resolve()]
    while EXTENDS in document.data:
        base = _base(document)
        if base.resolve() in resolved:
            first = resolved.index(base.resolve())
            chain = " extends ".join([*files[first:], files[first]])
            raise BadInput(document.fault((EXTENDS,), f"goes round in a circle: {chain}"))
        read = documents.load(base, faults=faults)
        files.append(read.source)
        resolved.append(base.resolve())
        document = _merged(document, read)
    return Composition(document, tuple(files))


def _base(document: Document) -> Path:
    """The file that a document extends: beside the file that says so, or a shipped scenario."""
    name = document.data[EXTENDS]
    if not isinstance(name, str) or not name.strip():
        raise BadInput(document.fault((EXTENDS,), f"{shown(name)} is no text", BESIDE))
    folder = Path(document.origin((EXTENDS,))).parent
    if (folder / name).is_file():
        return folder / name  # as it is named, for messages
    found = find_file(name, folder.resolve(), "scenarios", SUFFIXES)
    if found is None:
        raise BadInput(document.fault((EXTENDS,), *missing_file(name, "scenarios", SUFFIXES)))
    return found


def _merged(own: Document, base: Document) -> Document:
    """One document of a file, as far as it is composed, and its next base; a base of the base remains to be read."""
    stated = {key: value for key, value in own.data.items() if key != EXTENDS}
    kept = set(_kept(stated, base.data))
    key_places = {path: place for path, place in base.key_places.items() if path in kept}
    value_places = {path: place for path, place in base.value_places.items() if path in kept}
    return replace(
        own,
        data=_values(stated, base.data),
        key_places={**key_places, **_without_extends(own.key_places)},
        value_places={**value_places, **_without_extends(own.value_places)},
        sources={**own.sources, **dict.fromkeys(kept, base.source)},
    )


def _without_extends(places: Mapping[KeyPath, Any]) -> dict[KeyPath, Any]:
    return {path: place for path, place in places.items() if path != (EXTENDS,)}


def _values(own: Mapping[str, Any], base: Mapping[str, Any]) -> dict[str, Any]:
    """Two mappings as one, in the base's order."""
    merged: dict[str, Any] = {}
    for key in (*base, *(key for key in own if key not in base)):
        stated: Any = own.get(key)
        inherited: Any = base.get(key)
        if key not in own:
            merged[key] = inherited
        elif _merge(stated, inherited):
            merged[key] = _values(stated, inherited)
        elif stated is not None or key not in base:
            merged[key] = stated
    return merged


def _merge(own: Any, base: Any) -> bool:
    """Whether two values of one key become one mapping."""
    if not (isinstance(own, dict) and isinstance(base, dict)):
        return False
    return all(own[key] == base.get(key) for key in CHOOSING if key in own)


def _kept(own: Mapping[str, Any], base: Mapping[str, Any], path: KeyPath = ()) -> Iterator[KeyPath]:
    """Paths of the base's values that nothing replaces or takes away."""
    for key, inherited in base.items():
        here = (*path, key)
        if key not in own:
            yield from _all(inherited, here)
        elif _merge(own[key], inherited):
            yield from _kept(own[key], inherited, here)


def _all(value: Any, path: KeyPath) -> Iterator[KeyPath]:
    """A value's path and those of all that it holds."""
    yield path
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield from _all(part, (*path, key))
