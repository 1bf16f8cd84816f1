"""YAML text to nodes, and nodes to plain data with their places: all that touches PyYAML."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import yaml

from capsim.documents.document import KeyPath, Place, dotted
from capsim.errors import BadInput, Fault

DEEPEST = 64
"""Deepest nesting that is read: far above any settings file, far below the interpreter's recursion limit."""

MOST_DIGITS = 64
"""Characters of a whole number: above any seed of a random generator, below what a float can hold."""

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


def compose(text: str, source: str) -> yaml.Node | None:
    """The node tree of the one document in `text`; None where it is empty."""
    try:
        loader = _Loader(text)
        try:
            node: yaml.Node | None = loader.get_single_node()
        finally:
            loader.dispose()
    except yaml.reader.ReaderError as error:
        line, column = place_at(text[: error.position])
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


class Reader:
    """Turns composed nodes into plain data, and notes places and faults on the way."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.key_places: dict[KeyPath, Place] = {}
        self.value_places: dict[KeyPath, Place] = {}
        self.faults: list[Fault] = []

    def read(self, node: yaml.Node, path: KeyPath) -> Any:
        """The data of a node that stands at this path."""
        self.value_places[path] = place_of(node)
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
            self.key_places[here] = place_of(key_node)
            data[key] = self.read(value_node, here)
        return data

    def _fault(self, node: yaml.Node, path: KeyPath, what: str, expected: str = "") -> None:
        line, column = place_of(node)
        self.faults.append(Fault(self.source, what, dotted(path), expected, "", line, column))


def whole_number(text: str) -> int:
    """A whole number in decimal, octal (``0o17``) or hexadecimal (``0xf``).

    Raises:
        ValueError: none, or of so many digits that arithmetic with it would not be finite.
    """
    if len(text) > MOST_DIGITS:
        raise ValueError(text)
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
    f"{_TAG}int": whole_number,
    f"{_TAG}float": _floating,
    f"{_TAG}str": _string,
}


def place_of(node: yaml.Node) -> Place:
    """Line and column where a node begins."""
    return node.start_mark.line + 1, node.start_mark.column + 1


def place_at(before: str) -> Place:
    """Line and column of the character that follows this text."""
    return before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1


def _shortened(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:37] + "...")
