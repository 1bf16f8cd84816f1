"""The figures of an entry as its file states them, each with its source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from capsim import documents
from capsim.documents import Document, KeyPath, dotted

APART = frozenset({"name", "aliases", "source", "sources"})
"""Keys that are no figures."""


class Figure(NamedTuple):
    """One figure of an entry.

    Attributes:
        name: its key, with those around it.
        value: as the file states it.
        source: where it comes from.
    """

    name: str
    value: str
    source: str


def figures(path: Path) -> tuple[Figure, ...]:
    """Figures of a model or a GPU in the order of its file.

    The source of a model's figure is the comment behind it or behind the section that it is in, which names a key of
    the published config; else the source of the whole entry. A GPU's file has a source for each figure.

    Args:
        path: a sound file of the catalog, or one like it.

    Raises:
        BadInput: it cannot be read.
    """
    document, lines = documents.load(path), path.read_text(encoding="utf-8").splitlines()
    data = document.data
    stated = {key: value for key, value in data.items() if key not in APART}
    sources: Mapping[str, str] = data.get("sources", {})
    return tuple(
        Figure(
            dotted(leaf),
            _words(value),
            sources.get(str(leaf[0])) or _comment(document, lines, leaf) or str(data.get("source", "")),
        )
        for leaf, value in _leaves(stated)
    )


def _leaves(section: Mapping[str, Any], around: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    """Values of nested mappings with their paths."""
    for key, value in section.items():
        if isinstance(value, dict):
            yield from _leaves(value, (*around, key))
        else:
            yield (*around, key), value


def _words(value: Any) -> str:
    """A value as the file writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _comment(document: Document, lines: list[str], leaf: KeyPath) -> str:
    """The comment on the line of a key, or on that of a key around it; empty without one."""
    for length in range(len(leaf), 0, -1):
        line, _ = document.place(leaf[:length], of_key=True)
        comment = lines[line - 1].partition(" # ")[2].strip()
        if comment:
            return comment
    return ""
