from __future__ import annotations

import re
from typing import Annotated

from pydantic import Field, PlainValidator

from capsim.catalog import json_schema
from capsim.catalog.schema import PositiveDuration, Section, number, refused, share, shown

_PERCENTILE = re.compile(r"p([0-9]+(?:\.[0-9]+)?)")
_PERCENTILE_NAMES = r"^p(?=[0-9.]*[1-9])0*(?:[0-9]{1,2}(?:\.[0-9]+)?|100(?:\.0+)?)$"


def percentile(name: str) -> float:
    """Percentile of a gate's key such as ``p99.9``, in percent; 0 where it is none."""
    match = _PERCENTILE.fullmatch(name)
    return float(match[1]) if match else 0.0


def _percentile_key(name: object) -> str:
    if isinstance(name, str) and 0 < percentile(name) <= 100:
        return name
    raise refused(f"{shown(name)} is no percentile", "p95 or the like, above p0 and at most p100")


_PERCENTILE_NAME = json_schema.declared({"type": "string", "pattern": _PERCENTILE_NAMES})
Gates = dict[
    Annotated[str, PlainValidator(_percentile_key, json_schema_input_type=_PERCENTILE_NAME)], PositiveDuration
]


class QualitySection(Section):
    """One of `slo.quality`."""

    value: Annotated[float, number("a number")]
    minimum: Annotated[float, number("a number")]


class ObjectivesSection(Section):
    """`slo`."""

    ttft: Gates = Field(default_factory=dict)
    tpot: Gates = Field(default_factory=dict)
    itl: Gates = Field(default_factory=dict)
    e2e: Gates = Field(default_factory=dict)
    error_rate: Annotated[float, share("at least 0% and less than 100%", lambda rate: rate < 1)] | None = None
    quality: dict[str, QualitySection] = Field(default_factory=dict)
