from __future__ import annotations

import math
from typing import Annotated, Any

from pydantic import Field, PlainValidator

from capsim.catalog import json_schema
from capsim.catalog.schema import (
    PositiveCount,
    PositiveRate,
    PositiveShare,
    Section,
    Text,
    choice,
    number,
    refused,
    shown,
    whole,
)
from capsim.catalog.union import chosen_by, member

PositiveNumber = Annotated[float, number("a number above 0", lambda value: value > 0)]
MeanTokens = Annotated[float, number("tokens, at least 1", lambda value: value >= 1)]


class TraceSection(Section):
    """`demand.trace`."""

    path: Text
    format: Annotated[str, choice("azure", "mooncake")] = "azure"
    block_size: PositiveCount | None = None


class ArrivalSection(Section):
    """`demand.synthetic.arrivals`."""

    process: Annotated[str, choice("poisson", "constant", "gamma")] = "poisson"
    burstiness: PositiveNumber | None = None


class FixedSection(Section):
    """Lengths that are all equal."""

    distribution: str
    value: PositiveCount


class UniformSection(Section):
    """Lengths from low to high, each as likely."""

    distribution: str
    low: PositiveCount
    high: PositiveCount


class LognormalSection(Section):
    """Lognormal lengths."""

    distribution: str
    mean: MeanTokens
    cv: PositiveNumber
    max: PositiveCount | None = None


class GeometricSection(Section):
    """Geometric lengths."""

    distribution: str
    mean: MeanTokens


_BY_DISTRIBUTION = chosen_by("distribution", "fixed", "uniform", "lognormal", "geometric")
LengthSection = Annotated[
    Annotated[FixedSection, member("fixed")]
    | Annotated[UniformSection, member("uniform")]
    | Annotated[LognormalSection, member("lognormal")]
    | Annotated[GeometricSection, member("geometric")],
    _BY_DISTRIBUTION[0],
    _BY_DISTRIBUTION[1],
]


class PrefixSection(Section):
    """`demand.synthetic.prefix`."""

    tokens: PositiveCount
    count: PositiveCount = 8
    share: PositiveShare = 1.0


class PrioritySection(Section):
    """One of `demand.synthetic.priorities`."""

    priority: Annotated[int, whole(-1_000_000)]
    share: PositiveShare


class SyntheticSection(Section):
    """`demand.synthetic`."""

    arrivals: ArrivalSection = ArrivalSection()
    prompt_tokens: LengthSection
    output_tokens: LengthSection
    prefix: PrefixSection | None = None
    priorities: list[PrioritySection] = Field(default_factory=list)


def _scalar(value: object) -> object:
    if isinstance(value, (dict, list)):
        raise refused(f"{shown(value)} is no single value", "text, a number, true or false")
    if isinstance(value, float) and not math.isfinite(value):
        raise refused(f"{value} is no number", "text, a number, true or false")
    return value


class DemandSection(Section):
    """`demand`."""

    target: PositiveRate | None = None
    trace: TraceSection | None = None
    synthetic: SyntheticSection | None = None
    sampling: dict[
        str, Annotated[Any, PlainValidator(_scalar, json_schema_input_type=json_schema.SCALAR)]
    ] = Field(default_factory=dict)
