from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from capsim.documents.document import Document
from capsim.documents.json_text import LatePlaces, PlacesLater, plain_json
from capsim.documents.nodes import Reader, compose, place_at, place_of
from capsim.errors import BadInput, Fault

LARGE = 1 << 16
"""Characters above which sound JSON is read by the standard library, a hundred times as fast; its places are found
only when somebody asks for one, which is when something is wrong."""


def load(path: Path, *, faults: list[Fault] | None = None) -> Document:
    """Read a YAML or JSON file; see `parse`.

    Raises:
        BadInput: also where the file cannot be read or is not UTF-8.
    """
    return parse(read_text(path), str(path), faults=faults)


def read_text(path: Path) -> str:
    """The text of a file in UTF-8, with or without a byte order mark.

    Raises:
        BadInput: the file cannot be read or is not UTF-8.
    """
    source = str(path)
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise BadInput(Fault(source, f"cannot be read: {error.strerror or error}")) from error
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # The good part before the bad byte tells its place.
        line, column = place_at(raw[: error.start].decode("utf-8", errors="replace"))
        fault = Fault(
            source, f"byte 0x{raw[error.start]:02x} is not UTF-8", "", "a UTF-8 text file", "", line, column
        )
        raise BadInput(fault) from error


def parse(text: str, source: str, *, faults: list[Fault] | None = None) -> Document:
    """Read YAML or JSON text whose top level is a mapping.

    Args:
        text: the whole document.
        source: its name in messages; a name that ends in ``.json`` may be indented with tabs.
        faults: where given, faults of content (duplicate keys, keys that are not text, tags) are added here
            and reading goes on, so that the caller can report them with its own.

    Raises:
        BadInput: the text is not YAML, is empty, or is no mapping at its top; and faults of content where
            `faults` is None.
    """
    if source.endswith(".json"):
        if len(text) > LARGE and (data := plain_json(text)) is not None:
            late = LatePlaces(text.replace("\t", " "), source)
            return Document(source, data, PlacesLater(late, "key_places"), PlacesLater(late, "value_places"))
        text = text.replace("\t", " ")  # JSON allows no tab inside strings, YAML none between tokens
    node = compose(text, source)
    if node is None:
        raise BadInput(Fault(source, "is empty", "", "a mapping of keys to values", "", 1, 1))
    line, column = place_of(node)
    if not isinstance(node, yaml.MappingNode):
        kind = "a list" if isinstance(node, yaml.SequenceNode) else "a single value"
        fault = Fault(source, f"the top level is {kind}", "", "a mapping of keys to values", "", line, column)
        raise BadInput(fault)
    reader = Reader(source)
    data = reader.read(node, ())
    if faults is not None:
        faults.extend(reader.faults)
    elif reader.faults:
        raise BadInput(*reader.faults)
    return Document(source, data, reader.key_places, reader.value_places)


def parse_value(text: str, source: str) -> Any:
    """One YAML value, e.g. of a command-line flag: a scalar, ``[a, b]`` or ``{a: b}``; empty text is None.

    Raises:
        BadInput: the text is not YAML; faults name `source` only, since a flag has no lines.
    """
    reader = Reader(source)
    try:
        node = compose(text, source)
    except BadInput as error:
        raise BadInput(*_without_place(error.faults)) from error
    value = None if node is None else reader.read(node, ())
    if reader.faults:
        raise BadInput(*_without_place(reader.faults))
    return value


def _without_place(faults: Iterable[Fault | str]) -> list[Fault | str]:
    return [replace(fault, line=None, column=None) if isinstance(fault, Fault) else fault for fault in faults]
