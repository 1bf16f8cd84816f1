"""The scenario file as JSON Schema (2020-12), from the models that check it.

An editor that knows it completes keys, says what they mean and marks a value of a wrong kind. What several keys must
agree on, and what a file or a catalog must hold, only `capsim check` knows.
"""

from __future__ import annotations

from typing import Any

from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from capsim.catalog.schema import Section
from capsim.catalog.union import Selection
from capsim.scenario.change_schema import NULL, change_schema
from capsim.scenario.checks import REQUIRED
from capsim.scenario.composed import EXTENDS
from capsim.scenario.demand_section import DemandSection
from capsim.scenario.file import ScenarioSection
from capsim.scenario.meanings import SECTIONS, meanings
from capsim.units import format_duration, format_share, parse_duration, parse_share, pattern

FILE = "scenario.schema.json"
"""Name of the schema beside the shipped scenarios, and beside those that `capsim init` writes."""


def scenario_schema() -> dict[str, Any]:
    """JSON Schema of a scenario file; a value that it refuses, `load` refuses too."""
    schema = ScenarioSection.model_json_schema(schema_generator=_Generator)
    definitions = schema.pop("$defs")
    definitions[ScenarioSection.__name__] = schema
    for _, path, section, described in SECTIONS:
        if section.__name__ in definitions:
            _finish(definitions[section.__name__], section, meanings(path, described))
    _require(schema, list(REQUIRED))
    _require(definitions[DemandSection.__name__], ["target"])
    definitions[DemandSection.__name__]["anyOf"] = [{"required": ["trace"]}, {"required": ["synthetic"]}]
    del definitions[ScenarioSection.__name__]
    properties, changes = change_schema(schema["properties"], definitions)
    whole = {"required": schema.pop("required"), "properties": schema["properties"]}
    return {
        "$schema": GenerateJsonSchema.schema_dialect,
        "title": "capsim scenario",
        **schema,
        "properties": properties,
        "if": {"required": [EXTENDS]},
        "else": whole,
        "$defs": {**definitions, **changes},
    }


class _Generator(GenerateJsonSchema):
    """Pydantic's, the same in each of its versions, with unions whose member is told by a word."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002
        """None: a title would only repeat the key."""
        return False

    def tagged_union_schema(self, schema: core_schema.TaggedUnionSchema) -> JsonSchemaValue:
        """One of the members, each with its own word at the key."""
        selection = schema["discriminator"]
        if not isinstance(selection, Selection):
            return super().tagged_union_schema(schema)
        members = [
            {**self.generate_inner(member), **selection.condition(str(tag))}
            for tag, member in schema["choices"].items()
        ]
        return {"oneOf": members}

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        """One of the kinds, or nothing."""
        inner = self.generate_inner(schema["schema"])
        kinds = inner["anyOf"] if inner.keys() == {"anyOf"} else [inner]
        return {"anyOf": [*kinds, NULL]}

    def dict_schema(self, schema: core_schema.DictSchema) -> JsonSchemaValue:
        """A mapping; a key without the pattern is refused."""
        mapping = super().dict_schema(schema)
        return {**mapping, "additionalProperties": False} if "patternProperties" in mapping else mapping


def _finish(definition: JsonSchemaValue, section: type[Section], said: dict[str, str]) -> None:
    """Say what each key means, and its default in the words of the file."""
    del definition["title"], definition["description"]
    if "required" not in definition:
        definition["type"] = ["object", "null"]  # `engine:` with nothing behind it means the defaults
    for name, field in section.model_fields.items():
        stated = definition["properties"][name]
        stated.pop("default", None)
        default = _default(field, stated)
        definition["properties"][name] = {
            "description": said[name],
            **stated,
            **({} if default is None else {"default": default}),
        }


def _default(field: FieldInfo, stated: JsonSchemaValue) -> Any:
    """A default as a file would state it; None where there is none to show."""
    default = None if field.is_required() else field.get_default(call_default_factory=True, validated_data={})
    if isinstance(default, Section):
        return None
    if isinstance(default, float) and _reads(stated, parse_duration):
        return format_duration(default, None)
    if isinstance(default, float) and _reads(stated, parse_share):
        return format_share(default, None)
    return default


def _reads(stated: JsonSchemaValue, parse: Any) -> bool:
    """Whether a value is the kind of quantity that a function of `capsim.units` reads."""
    patterns = {part.get("pattern") for part in (stated, *stated.get("anyOf", ()))}
    return not patterns.isdisjoint({pattern(parse), pattern(parse, positive=True)})


def _require(definition: JsonSchemaValue, names: list[str]) -> None:
    """Make keys required that the models give up only so that all the rest is checked."""
    definition["required"] = names
    definition["type"] = "object"
    for name in names:
        stated = definition["properties"][name]
        kind = next(kind for kind in stated.pop("anyOf") if kind != NULL)
        definition["properties"][name] = {**stated, **kind, **({"type": "object"} if "$ref" in kind else {})}
