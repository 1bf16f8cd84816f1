"""What a field takes as JSON Schema, which editors read: declared beside the validator that decides."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import GetJsonSchemaHandler
from pydantic_core import CoreSchema

from capsim import units

Json = dict[str, Any]


@dataclass(frozen=True, eq=False)
class _Described:
    """As pydantic's WithJsonSchema, whose schema is one object for all fields, to which each adds its own default."""

    schema: Json

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> Json:
        return copy.deepcopy(self.schema)


def declared(schema: Json) -> Any:
    """The type of a validator's input, described by this schema and checked by nothing else."""
    return Annotated[Any, _Described(schema)]


TEXT = declared({"type": "string", "pattern": r"\S"})
BOOLEAN = declared({"type": "boolean"})
NUMBER = declared({"type": "number"})
SCALAR = declared({"type": ["string", "number", "boolean", "null"]})


def whole_number(minimum: int) -> Any:
    """A whole number that is at least `minimum`."""
    return declared({"type": "integer", "minimum": minimum})


def one_of(*known: str | int) -> Any:
    """One of these values, all of one type."""
    type_ = {str: "string", bool: "boolean", int: "integer"}[type(known[0])]
    return declared({"type": type_, "enum": list(known)})


def quantity(parse: Callable[[object], object], *, positive: bool) -> Any:
    """Text with a unit that a function of `capsim.units` reads; 0 needs none."""
    text = _quantity(parse, positive=positive)
    return declared(text if positive else {"anyOf": [text, {"const": 0}]})


def share_or_fraction() -> Any:
    """A share such as ``5%``, or a bare fraction of one."""
    fraction = {"type": "number", "minimum": 0, "maximum": 1}
    return declared({"anyOf": [_quantity(units.parse_share, positive=False), fraction]})


def _quantity(parse: Callable[[object], object], *, positive: bool) -> Json:
    try:
        parse(None)
    except units.UnitError as error:
        expected = error.expected
    text = units.pattern(parse, positive=positive)
    return {
        "type": "string",
        "pattern": text,
        "maxLength": units.LONGEST,
        "patternErrorMessage": f"expected {expected}",
    }
