from __future__ import annotations

from typing import Annotated

from capsim.catalog.schema import Duration, PositiveDuration, PositiveShare, Section, Text, number
from capsim.catalog.union import chosen_by, member


class RooflineSection(Section):
    """`step_cost` from data sheets."""

    source: str = "roofline"
    compute_efficiency: PositiveShare | None = None
    weight_bandwidth_efficiency: PositiveShare | None = None
    kv_bandwidth_efficiency: PositiveShare | None = None
    attention_efficiency: PositiveShare | None = None
    host_overhead: Duration | None = None
    routing_skew: Annotated[float, number("0 (uniform) or more", lambda value: value >= 0)] = 0.0


class ProfileSection(Section):
    """`step_cost` as measured."""

    source: str
    path: Text


class ConstantSection(Section):
    """`step_cost` that is always the same."""

    source: str
    seconds: PositiveDuration


class LinearSection(Section):
    """`step_cost` as a sum of stated parts."""

    source: str
    base: Duration = 0.0
    per_prefill_token: Duration = 0.0
    per_chunk: Duration = 0.0
    per_query_key_pair: Duration = 0.0
    per_decode: Duration = 0.0
    per_context_token: Duration = 0.0


_BY_SOURCE = chosen_by("source", "roofline", "profile", "constant", "linear", default="roofline")
StepCostSection = Annotated[
    Annotated[RooflineSection, member("roofline")]
    | Annotated[ProfileSection, member("profile")]
    | Annotated[ConstantSection, member("constant")]
    | Annotated[LinearSection, member("linear")],
    _BY_SOURCE[0],
    _BY_SOURCE[1],
]
