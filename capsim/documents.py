"""YAML and JSON text to plain data that knows where each key and value stands.

Scalars follow the YAML 1.2 core schema, not PyYAML's YAML 1.1: ``1e3`` is a number; ``on``, ``off``, ``yes``
and ``no`` are text; ``12:30``, ``1_000`` and dates are text; ``0o17`` is octal and ``010`` is ten. JSON goes
the same way, since YAML 1.2 contains it. Aliases (``*name``) and tags of one's own are refused: a settings
file needs neither, and aliases can make a small file expand without bound.

Source: YAML 1.2.2, section 10.3.2 "Tag Resolution" (core schema).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from capsim.errors import BadInput, Fault

KeyPath = tuple[str | int, ...]
"""Keys and list indices from the top of a document to a value, e.g. ``("fleet", "failures", 0, "at")``."""

Place = tuple[int, int]
"""Line and column, both from 1."""

DEEPEST = 64
"""Deepest nesting that is read: far above any settings file, far below the interpreter's recursion limit."""

LARGE = 1 << 16
"""Characters above which sound JSON is read by the standard library, a hundred times as fast; its places are found
only when somebody asks for one, which is when something is wrong."""

_CORE_SCHEMA = {
    "null": (re.compile(r"^(?:~|null|Null|NULL|)$"), ["~", "n", "N", ""]),
    "bool": (re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")),
    "int": (re.compile(r"^(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)$"), list("-+0123456789")),
    "float": (
        re.compile(
            r"^(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
            r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
        ),
        list("-+0123456789."),
    ),
}
_TAG = "tag:yaml.org,2002:"


@dataclass(frozen=True)
class Document:
    """A file's data, and the place of every key and value in it.

    Attributes:
        source: the file as it is named in messages.
        data: the top mapping: dicts with text keys, lists, text, numbers, booleans and None.
        key_places: place of each mapping key, by the path of its value.
        value_places: place of each value, by its path.
        overridden: paths whose value in `data` came from elsewhere, with the name of that source.
    """

    source: str
    data: dict[str, Any]
    key_places: Mapping[KeyPath, Place]
    value_places: Mapping[KeyPath, Place]
    overridden: Mapping[KeyPath, str] = field(default_factory=dict)

    def place(self, path: KeyPath, *, of_key: bool = False) -> Place:
        """Line and column of a value, or of its key; of the nearest thing around it where it is not there."""
        for length in range(len(path), 0, -1):
            places = self.key_places if of_key or length < len(path) else self.value_places
            found = places.get(path[:length]) or self.value_places.get(path[:length])
            if found is not None:
                return found
        return self.value_places.get((), (1, 1))

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
        line, column = self.place(path, of_key=of_key)
        return Fault(self.source, what, key, expected, suggestion, line, column)


def dotted(path: Iterable[str | int]) -> str:
    """A path as it is printed, e.g. ``fleet.failures[0].at``."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")


def load(path: Path, *, faults: list[Fault] | None = None) -> Document:
    """Read a YAML or JSON file; see `parse`.

    Raises:
        BadInput: also where the file cannot be read or is not UTF-8.
    """
    source = str(path)
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise BadInput(Fault(source, f"cannot be read: {error.strerror or error}")) from error
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # The good part before the bad byte tells its place.
        line, column = _place_at(raw[: error.start].decode("utf-8", errors="replace"))
        fault = Fault(
            source, f"byte 0x{raw[error.start]:02x} is not UTF-8", "", "a UTF-8 text file", "", line, column
        )
        raise BadInput(fault) from error
    return parse(text, source, faults=faults)


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
        if len(text) > LARGE and (data := _plain_json(text)) is not None:
            late = _LatePlaces(text.replace("\t", " "), source)
            return Document(source, data, _Late(late, "key_places"), _Late(late, "value_places"))
        text = text.replace("\t", " ")  # JSON allows no tab inside strings, YAML none between tokens
    node = _compose(text, source)
    if node is None:
        raise BadInput(Fault(source, "is empty", "", "a mapping of keys to values", "", 1, 1))
    line, column = _place(node)
    if not isinstance(node, yaml.MappingNode):
        kind = "a list" if isinstance(node, yaml.SequenceNode) else "a single value"
        fault = Fault(source, f"the top level is {kind}", "", "a mapping of keys to values", "", line, column)
        raise BadInput(fault)
    reader = _Reader(source)
    data = reader.read(node, ())
    if faults is not None:
        faults.extend(reader.faults)
    elif reader.faults:
        raise BadInput(*reader.faults)
    return Document(source, data, reader.key_places, reader.value_places)


def _plain_json(text: str) -> dict[str, Any] | None:
    """The data of JSON text in which `parse` would find no fault; None where it must look closer."""
    try:
        data = json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse_constant)
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


class _LatePlaces:
    """Places of a text, found when they are first asked for."""

    def __init__(self, text: str, source: str) -> None:
        self._text = text
        self._source = source

    @cached_property
    def reader(self) -> _Reader:
        reader = _Reader(self._source)
        node = _compose(self._text, self._source)
        if node is not None:
            reader.read(node, ())
        return reader


class _Late(Mapping[KeyPath, Place]):
    """One of the two maps of a text whose places are found late."""

    def __init__(self, places: _LatePlaces, name: str) -> None:
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


def parse_value(text: str, source: str) -> Any:
    """One YAML value, e.g. of a command-line flag: a scalar, ``[a, b]`` or ``{a: b}``; empty text is None.

    Raises:
        BadInput: the text is not YAML; faults name `source` only, since a flag has no lines.
    """
    reader = _Reader(source)
    try:
        node = _compose(text, source)
    except BadInput as error:
        raise BadInput(*_without_place(error.faults)) from error
    value = None if node is None else reader.read(node, ())
    if reader.faults:
        raise BadInput(*_without_place(reader.faults))
    return value


class _Loader(yaml.SafeLoader):
    """Composes nodes by the core schema, without aliases and without bottomless nesting."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 (PyYAML's own class attribute; filled below)
    depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        event: yaml.Event = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent):
            problem = f"alias '*{event.anchor}' is not supported, expected the value itself"
            raise _refusal(problem, event)
        if self.depth >= DEEPEST:
            problem = f"nested deeper than {DEEPEST} levels"
            raise _refusal(problem, event)
        self.depth += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self.depth -= 1


def _refusal(problem: str, event: yaml.Event) -> yaml.MarkedYAMLError:
    """An error in PyYAML's own tree, so that it ends where syntax errors do."""
    return yaml.composer.ComposerError(None, None, problem, event.start_mark)  # type: ignore[arg-type]


for _name, (_pattern, _first) in _CORE_SCHEMA.items():
    _Loader.add_implicit_resolver(_TAG + _name, _pattern, _first)


def _compose(text: str, source: str) -> yaml.Node | None:
    """The node tree of the one document in `text`; None where it is empty."""
    try:
        loader = _Loader(text)
        try:
            node: yaml.Node | None = loader.get_single_node()
        finally:
            loader.dispose()
    except yaml.reader.ReaderError as error:
        line, column = _place_at(text[: error.position])
        what = f"character U+{ord(text[error.position]):04X} is not allowed in a text file"
        raise BadInput(Fault(source, what, line=line, column=column)) from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        what, expected = _syntax(error)
        raise BadInput(Fault(source, what, "", expected, "", line, column)) from error
    return node


def _syntax(error: yaml.MarkedYAMLError) -> tuple[str, str]:
    """What a syntax error says, and what was expected, in the words of somebody who edits the file."""
    problem = error.problem or "syntax error"
    if "'\\t'" in problem:
        return "a tab where YAML needs spaces", "spaces"
    if isinstance(error, yaml.composer.ComposerError):
        if error.context:
            return "a second document begins here", "one document in a file"
        return problem, ""
    context = f" {error.context}" if error.context else ""
    return f"not valid YAML{context}: {problem}", ""


class _Reader:
    """Turns composed nodes into plain data, and notes places and faults on the way."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.key_places: dict[KeyPath, Place] = {}
        self.value_places: dict[KeyPath, Place] = {}
        self.faults: list[Fault] = []

    def read(self, node: yaml.Node, path: KeyPath) -> Any:
        self.value_places[path] = _place(node)
        if isinstance(node, yaml.MappingNode) and node.tag == f"{_TAG}map":
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode) and node.tag == f"{_TAG}seq":
            return [self.read(item, (*path, index)) for index, item in enumerate(node.value)]
        if isinstance(node, yaml.ScalarNode) and node.tag in _SCALARS:
            try:
                return _SCALARS[node.tag](node.value)
            except ValueError:
                kind = node.tag.removeprefix(_TAG)
                self._fault(node, path, f"{_shortened(node.value)} cannot be read as {kind}")
                return None
        self._fault(node, path, f"tag {node.tag!r} is not supported", "plain YAML")
        return None

    def _mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, Any]:
        data: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = key_node.value
            if not isinstance(key_node, yaml.ScalarNode) or key_node.tag != f"{_TAG}str":
                what = f"key {_shortened(key)} is not text" if isinstance(key, str) else "a key is not text"
                self._fault(key_node, path, what, "a name")
                continue
            here = (*path, key)
            if key in data:
                line, column = self.key_places[here]
                self._fault(
                    key_node, here, f"duplicate key, first stated at {line}:{column}", "each key once"
                )
                continue
            self.key_places[here] = _place(key_node)
            data[key] = self.read(value_node, here)
        return data

    def _fault(self, node: yaml.Node, path: KeyPath, what: str, expected: str = "") -> None:
        line, column = _place(node)
        self.faults.append(Fault(self.source, what, dotted(path), expected, "", line, column))


def _integer(text: str) -> int:
    if text.startswith("0o"):
        return int(text[2:], 8)
    return int(text, 16) if text.startswith("0x") else int(text, 10)


def _floating(text: str) -> float:
    # YAML writes ".inf" and ".nan" where Python writes "inf" and "nan".
    return float(re.sub(r"\.(?=inf|nan)", "", text.lower()))


def _truth(text: str) -> bool:
    if text.lower() not in {"true", "false"}:
        raise ValueError(text)
    return text.lower() == "true"


def _string(text: str) -> str:
    # JSON escapes characters beyond U+FFFF as two surrogates; half of such a pair is no text at all.
    return text.encode("utf-16", "surrogatepass").decode("utf-16")


def _nothing(text: str) -> None:
    if text.lower() not in {"", "~", "null"}:
        raise ValueError(text)


_SCALARS: Mapping[str, Callable[[str], Any]] = {
    f"{_TAG}null": _nothing,
    f"{_TAG}bool": _truth,
    f"{_TAG}int": _integer,
    f"{_TAG}float": _floating,
    f"{_TAG}str": _string,
}


def _place(node: yaml.Node) -> Place:
    return node.start_mark.line + 1, node.start_mark.column + 1


def _place_at(before: str) -> Place:
    """Line and column of the character that follows this text."""
    return before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1


def _without_place(faults: Iterable[Fault | str]) -> list[Fault | str]:
    return [replace(fault, line=None, column=None) if isinstance(fault, Fault) else fault for fault in faults]


def _shortened(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:37] + "...")
