"""The YAML edge: strict sections, typed fields with units, and pydantic's errors as faults with their place.

A section is a pydantic model of one mapping of a file. Its fields take what the file may hold, and nothing is
converted in silence: a whole number is no text, ``1`` is no boolean, a duration has a unit.
"""

from __future__ import annotations

import copy
import difflib
import math
from collections.abc import Callable, Iterable
from typing import Annotated, Any, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    PlainValidator,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic_core import ErrorDetails, PydanticCustomError

from capsim import units
from capsim.catalog import json_schema
from capsim.documents import Document, KeyPath
from capsim.errors import Fault

TAGGED = "="  # begins the tag of a union's member in pydantic's error places; no key of a schema begins so
_DICT_KEY = "[key]"  # ends pydantic's place of an error that is about a mapping's key, not about its value


class Section(BaseModel):
    """One mapping of a file. Unknown keys are refused; an empty mapping (``engine:``) means the defaults."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    @model_validator(mode="before")
    @classmethod
    def _note_keys(cls, data: Any, info: ValidationInfo) -> Any:
        # An error about an unknown key does not say which keys are known: note them for each mapping.
        if data is None:
            return {}
        if isinstance(data, dict) and isinstance(info.context, dict):
            info.context[id(data)] = list(cls.model_fields)
        return data


AnySection = TypeVar("AnySection", bound=Section)


def refused(what: str, expected: str = "", suggestion: str = "") -> PydanticCustomError:
    """The error that a field's validator raises; it becomes the fault with the place of the value."""
    context = {"what": what, "expected": expected, "suggestion": suggestion}
    return PydanticCustomError("refused", "{what}", context)


def closest(name: str, known: Iterable[str]) -> str:
    """The known name that was probably meant, or empty."""
    by_lower = {candidate.lower(): candidate for candidate in known}
    close = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[close[0]] if close else ""


def shown(value: Any) -> str:
    """A value as a message quotes it: short, and in the words of the file."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (dict, list)):
        return "a mapping" if isinstance(value, dict) else "a list"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _with_units(parse: Callable[[object], Any], *, positive: bool) -> PlainValidator:
    def read(value: object) -> Any:
        try:
            quantity = parse(value)
        except units.UnitError as error:
            raise refused(error.what, error.expected, error.suggestion) from error
        if positive and quantity == 0:
            raise refused(f"{shown(value)} is not above 0", "more than 0")
        return quantity

    return PlainValidator(read, json_schema_input_type=json_schema.quantity(parse, positive=positive))


def _read_rate(value: object) -> units.Rate:
    try:
        rate = units.parse_rate(value)
    except units.UnitError as error:
        raise refused(error.what, error.expected, error.suggestion) from error
    if rate.per_second == 0:
        raise refused(f"{shown(value)} is not above 0", "more than 0")
    return rate


def whole(minimum: int) -> PlainValidator:
    """Field of a whole number that is at least `minimum`."""

    def read(value: object) -> int:
        expected = f"a whole number, at least {minimum}"
        if isinstance(value, bool) or not isinstance(value, int):
            raise refused(f"{shown(value)} is no whole number", expected)
        if value < minimum:
            raise refused(f"{value} is too small", expected)
        return value

    return PlainValidator(read, json_schema_input_type=json_schema.whole_number(minimum))


def number(expected: str, accepts: Callable[[float], bool] = math.isfinite) -> PlainValidator:
    """Field of a plain number without a unit; `expected` says which ones `accepts` lets pass."""

    def read(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            raise refused(f"{shown(value)} is no number", expected)
        if not accepts(value):
            raise refused(f"{value:g} is out of range", expected)
        return float(value)

    return PlainValidator(read, json_schema_input_type=json_schema.NUMBER)


def share(expected: str, accepts: Callable[[float], bool] = math.isfinite) -> PlainValidator:
    """Field of a share such as ``5%`` or 0.05; `expected` says which ones `accepts` lets pass."""

    def read(value: object) -> float:
        try:
            fraction = units.parse_share(value)
        except units.UnitError as error:
            raise refused(error.what, error.expected, error.suggestion) from error
        if not accepts(fraction):
            raise refused(f"{shown(value)} is out of range", expected)
        return fraction

    return PlainValidator(read, json_schema_input_type=json_schema.share_or_fraction())


def choice(*known: str, later: str = "") -> PlainValidator:
    """Field of one of these words; `later` explains why there are no others in this version."""

    def read(value: object) -> str:
        if isinstance(value, str) and value in known:
            return value
        what = f"{shown(value)} is not known" + (f" ({later})" if later else "")
        expected = f"one of {', '.join(known)}" if len(known) > 1 else known[0]
        raise refused(what, expected, closest(value, known) if isinstance(value, str) else "")

    return PlainValidator(read, json_schema_input_type=json_schema.one_of(*known))


def _read_text(value: object) -> str:
    if isinstance(value, str) and value.strip():
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        raise refused(f"{value!r} is a number", f'text; in quotes it is one: "{value!r}"')
    raise refused(f"{shown(value)} is no text" if value != "" else "the text is empty", "text")


def _read_boolean(value: object) -> bool:
    if isinstance(value, bool):
        return value
    meant = {"on": "true", "yes": "true", "off": "false", "no": "false"}.get(str(value).lower(), "")
    raise refused(f"{shown(value)} is neither true nor false", "true or false", meant)


Text = Annotated[str, PlainValidator(_read_text, json_schema_input_type=json_schema.TEXT)]
Boolean = Annotated[bool, PlainValidator(_read_boolean, json_schema_input_type=json_schema.BOOLEAN)]
Count = Annotated[int, whole(0)]
PositiveCount = Annotated[int, whole(1)]
Duration = Annotated[float, _with_units(units.parse_duration, positive=False)]
PositiveDuration = Annotated[float, _with_units(units.parse_duration, positive=True)]
Size = Annotated[int, _with_units(units.parse_size, positive=True)]
Bandwidth = Annotated[float, _with_units(units.parse_bandwidth, positive=True)]
Compute = Annotated[float, _with_units(units.parse_compute, positive=True)]
PositiveShare = Annotated[float, share("more than 0% and at most 100%", lambda fraction: 0 < fraction <= 1)]
PositiveRate = Annotated[
    units.Rate,
    PlainValidator(_read_rate, json_schema_input_type=json_schema.quantity(units.parse_rate, positive=True)),
]


def validated(section: type[AnySection], document: Document, faults: list[Fault]) -> AnySection | None:
    """Validate a whole document; None where it is at fault, and every fault of it is appended to `faults`."""
    checked, _ = _attempt(section, document, document.data, faults)
    return checked


def validated_in_part(
    section: type[AnySection], document: Document, faults: list[Fault]
) -> tuple[AnySection, frozenset[KeyPath]]:
    """Validate a document, and where values are at fault give what is sound without them.

    Checks across keys can then still look at everything sound, so that one run reports all faults.

    Args:
        section: the top mapping; all its keys have defaults, so that an empty document is valid.
        document: what was read.
        faults: each fault found is appended here.

    Returns:
        The section, and the paths that were left out of it.
    """
    data = copy.deepcopy(document.data)
    left_out: set[KeyPath] = set()
    while True:
        # Later rounds find only what leaving out has caused.
        checked, paths = _attempt(section, document, data, [] if left_out else faults)
        if checked is not None:
            return checked, frozenset(left_out)
        left_out |= paths
        for path in paths:
            _remove(data, path)


def _attempt(
    section: type[AnySection], document: Document, data: Any, faults: list[Fault]
) -> tuple[AnySection | None, set[KeyPath]]:
    """The section; or None and the paths to leave out."""
    known: dict[int, list[str]] = {}
    try:
        return section.model_validate(data, context=known), set()
    except ValidationError as error:
        details = error.errors(include_url=False)
    found = [(detail["type"], _path(detail), _fault(document, data, detail, known)) for detail in details]
    # A misspelt key that is missing under its right name is one fault, not two.
    meant = {(*path[:-1], fault.suggestion) for kind, path, fault in found if kind == "extra_forbidden"}
    faults.extend(fault for kind, path, fault in found if kind != "missing" or path not in meant)
    paths: set[KeyPath] = set()
    for detail in details:
        path = _path(detail)
        # What lacks a key is left out whole; and a list with a bad item too, since indices would shift.
        path = path[:-1] if detail["type"] == "missing" else path
        paths.add(path[: next((at for at, part in enumerate(path) if isinstance(part, int)), len(path))])
    return None, paths


def _path(detail: ErrorDetails) -> KeyPath:
    """Path in the document of pydantic's error place, which also holds the tags of unions."""
    *around, last = [part for part in detail["loc"] if part != _DICT_KEY] or [""]
    kept = [part for part in around if not (isinstance(part, str) and part.startswith(TAGGED))]
    tagged = isinstance(last, str) and last.startswith(TAGGED) and detail["type"] != "extra_forbidden"
    return tuple(kept) if tagged else (*kept, last)


def _fault(document: Document, data: Any, detail: ErrorDetails, known: dict[int, list[str]]) -> Fault:
    path = _path(detail)
    kind = detail["type"]
    if kind == "extra_forbidden":
        for part in path[:-1]:
            data = data[part]
        names = known.get(id(data), [])
        expected = f"one of {', '.join(names)}"
        return document.fault(path, "unknown key", expected, closest(str(path[-1]), names), of_key=True)
    if kind == "missing":
        return document.fault(path, "is missing", of_key=True)
    if kind in {"model_type", "model_attributes_type", "dict_type"}:
        return document.fault(path, f"{shown(detail['input'])} is no mapping", "a mapping")
    if kind in {"list_type", "tuple_type"}:
        return document.fault(path, f"{shown(detail['input'])} is no list", "a list")
    context = detail.get("ctx", {})
    what = context.get("what", detail["msg"])
    of_key = detail["loc"][-1:] == (_DICT_KEY,)
    return document.fault(
        path, what, context.get("expected", ""), context.get("suggestion", ""), of_key=of_key
    )


def _remove(data: Any, path: KeyPath) -> None:
    """Take the value at `path` out of nested mappings; nothing where an outer value is gone already."""
    for part in path[:-1]:
        data = data.get(part) if isinstance(data, dict) else None
    if isinstance(data, dict) and path:
        data.pop(path[-1], None)
