"""JSON Schema of a file that extends another: it states what it changes, and nothing is required of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Schema = dict[str, Any]
NULL: Schema = {"type": "null"}
REFERENCE = "#/$defs/"
SUFFIX = "Change"
KEPT = ("description", "default")


def change_schema(
    properties: Mapping[str, Schema], definitions: Mapping[str, Schema]
) -> tuple[Schema, Schema]:
    """Properties of a mapping that changes another one, and the definitions that they need.

    Everything may be left out, and everything may be taken away with null. Items of lists are whole: a list replaces a
    list.

    Args:
        properties: of the whole mapping.
        definitions: of the sections in it, whole.
    """
    change = _Change(definitions)
    changed = {name: change.value(each) for name, each in properties.items()}
    return changed, change.found


class _Change:
    """Collects the changed sections that changed values refer to."""

    def __init__(self, definitions: Mapping[str, Schema]) -> None:
        self._definitions = definitions
        self.found: dict[str, Schema] = {}

    def value(self, schema: Schema) -> Schema:
        """Of a key: what it may hold, or null."""
        said = {name: schema[name] for name in KEPT if name in schema}
        held = self._part({name: part for name, part in schema.items() if name not in KEPT})
        kinds = held["anyOf"] if held.keys() == {"anyOf"} else [held]
        return {**said, "anyOf": [*kinds, *([] if NULL in kinds else [NULL])]}

    def _part(self, schema: Schema) -> Schema:
        part = {name: value for name, value in schema.items() if name not in ("required", "oneOf")}
        if str(part.get("$ref", "")).startswith(REFERENCE):
            part["$ref"] = self._refer(part["$ref"].removeprefix(REFERENCE))
        members = [self._part(member) for key in ("anyOf", "oneOf") for member in schema.get(key, ())]
        if members:
            part["anyOf"] = members
        for key in ("patternProperties", "additionalProperties"):
            if isinstance(part.get(key), dict):
                part[key] = self._entries(part[key], each=key == "patternProperties")
        return part

    def _entries(self, schema: Schema, *, each: bool) -> Schema:
        return {name: self.value(value) for name, value in schema.items()} if each else self.value(schema)

    def _refer(self, name: str) -> str:
        changed = name + SUFFIX
        if changed not in self.found:
            whole = self._definitions[name]
            self.found[changed] = {}
            self.found[changed] = {
                **{key: value for key, value in whole.items() if key not in ("required", "anyOf")},
                "type": ["object", "null"],
                "properties": {key: self.value(value) for key, value in whole["properties"].items()},
            }
        return REFERENCE + changed
