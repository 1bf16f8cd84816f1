"""``--set engine.max_num_seqs=128``: single values of a scenario given on the command line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from capsim.documents import Document, KeyPath, dotted, parse_value
from capsim.errors import BadInput, Fault
from capsim.scenario.composed import EXTENDS

_PART = re.compile(r"([^.\[\]=]+)((?:\[\d+\])*)")


def overridden(document: Document, overrides: Sequence[str], faults: list[Fault]) -> Document:
    """Set values in a document; each override is ``path=value`` with a YAML value.

    Args:
        document: the scenario as its file states it.
        overrides: e.g. ``engine.max_num_seqs=128`` or ``fleet.failures[0].at=30s``; later ones win.
        faults: overrides that cannot be read are appended here and left out.
    """
    for text in overrides:
        name, equals, value = text.partition("=")
        name = name.strip()
        source = f"--set {name}"
        path = _path(name)
        if not equals or path is None:
            what = f"{text!r} sets nothing"
            faults.append(Fault("--set", what, "", "a key and a value such as engine.max_num_seqs=128"))
            continue
        if path[0] == EXTENDS:
            what = "what a scenario extends is read before anything is set"
            faults.append(Fault(source, what, "", f"{EXTENDS} in the file"))
            continue
        try:
            data = _with_value(document.data, path, parse_value(value, source), 0, source)
        except BadInput as error:
            faults.extend(fault for fault in error.faults if isinstance(fault, Fault))
        else:
            document = replace(document, data=data, overridden={**document.overridden, path: source})
    return document


def _path(name: str) -> KeyPath | None:
    """Keys and indices of a dotted name; None where it is none."""
    path: list[str | int] = []
    for part in name.split("."):
        match = _PART.fullmatch(part)
        if match is None:
            return None
        path.append(match[1])
        path.extend(int(index) for index in re.findall(r"\d+", match[2]))
    return tuple(path)


def _with_value(data: Any, path: KeyPath, value: Any, depth: int, source: str) -> Any:
    """A copy of `data` with `value` at `path`; only what lies on the path is copied."""
    if depth == len(path):
        return value
    part = path[depth]
    if isinstance(part, int):
        if not isinstance(data, list) or not 0 <= part < len(data):
            held = f"has {len(data)} items" if isinstance(data, list) else "is not a list"
            raise BadInput(Fault(source, f"{dotted(path[:depth])} {held}, so there is no [{part}]"))
        changed = list(data)
        changed[part] = _with_value(data[part], path, value, depth + 1, source)
        return changed
    if data is not None and not isinstance(data, dict):
        raise BadInput(Fault(source, f"{dotted(path[:depth])} is not a mapping, so it has no key {part!r}"))
    mapping = data or {}
    return {**mapping, part: _with_value(mapping.get(part), path, value, depth + 1, source)}
