"""The scenario file's schema: which keys there are, what they hold, and their defaults.

Only single values are checked here; what several keys must agree on is in `capsim.scenario.checks`.
"""

from __future__ import annotations

import math
import re
from typing import Annotated, Any

from pydantic import Field, PlainValidator

from capsim.catalog import json_schema
from capsim.catalog.schema import (
    Bandwidth,
    Boolean,
    Count,
    Duration,
    PositiveCount,
    PositiveDuration,
    PositiveRate,
    Section,
    Size,
    Text,
    choice,
    number,
    refused,
    share,
    shown,
    whole,
)
from capsim.catalog.union import chosen_by, member

PositiveShare = Annotated[float, share("more than 0% and at most 100%", lambda fraction: 0 < fraction <= 1)]
PositiveNumber = Annotated[float, number("a number above 0", lambda value: value > 0)]
MeanTokens = Annotated[float, number("tokens, at least 1", lambda value: value >= 1)]
_PERCENTILE = re.compile(r"p([0-9]+(?:\.[0-9]+)?)")
_PERCENTILE_NAMES = r"^p(?=[0-9.]*[1-9])0*(?:[0-9]{1,2}(?:\.[0-9]+)?|100(?:\.0+)?)$"


def _version(value: object) -> int:
    if value == 1 and not isinstance(value, bool):
        return 1
    raise refused(f"{shown(value)} is no version of the scenario format that is known here", "1")


def _only(accepted: bool, reason: str) -> PlainValidator:
    """Field of a switch that has one position in this version."""

    def read(value: object) -> bool:
        if value is accepted:
            return accepted
        position = "true" if accepted else "false"
        what = reason if isinstance(value, bool) else f"{shown(value)} is neither true nor false"
        raise refused(what, position)

    return PlainValidator(read, json_schema_input_type=json_schema.one_of(accepted))


NO_PARTIAL_PREFILLS = (
    "vLLM's V1 engine refuses another (0.19: 'Concurrent Partial Prefill is not supported'); "
    "long_prefill_token_threshold alone lets several prompts be half computed"
)


def _one(reason: str) -> PlainValidator:
    """Field of a count that must be 1."""

    def read(value: object) -> int:
        if value == 1 and not isinstance(value, bool):
            return 1
        whole = isinstance(value, int) and not isinstance(value, bool)
        raise refused(reason if whole else f"{shown(value)} is no whole number", "1")

    return PlainValidator(read, json_schema_input_type=json_schema.one_of(1))


class LimitsSection(Section):
    """`engine.limit_mm_per_prompt`."""

    image: Count = 0


class OffloadSection(Section):
    """One of `engine.kv_offload`."""

    name: Text
    capacity: Size
    bandwidth: Bandwidth
    latency: Duration = 0.0
    conversion: Duration = 0.0


class EngineSection(Section):
    """`engine`: see `EngineSettings`; `num_gpu_blocks_override` is vLLM's name for `num_gpu_blocks`."""

    name: Annotated[str, choice("vllm", later="only vllm is modelled in this version")] = "vllm"
    version: Text = "0.19.0"
    tensor_parallel_size: PositiveCount = 1
    pipeline_parallel_size: PositiveCount = 1
    data_parallel_size: PositiveCount = 1
    enable_expert_parallel: Boolean = False
    dtype: Annotated[str, choice("bfloat16", "float16", "fp8", "int8", "int4")] = "bfloat16"
    kv_cache_dtype: Annotated[str, choice("auto", "bfloat16", "fp8")] = "auto"
    max_model_len: PositiveCount | None = None
    max_num_seqs: PositiveCount = 256
    max_num_batched_tokens: PositiveCount = 2048
    block_size: PositiveCount = 16
    gpu_memory_utilization: PositiveShare = 0.9
    num_gpu_blocks: Annotated[int, whole(2)] | None = None
    num_gpu_blocks_override: Annotated[int, whole(2)] | None = None
    enforce_eager: Boolean = False
    enable_chunked_prefill: Annotated[
        bool, _only(True, "an engine without chunked prefill is not modelled yet")
    ] = True
    enable_prefix_caching: Boolean = True
    async_scheduling: Boolean | None = None
    scheduler_reserve_full_isl: Boolean | None = None
    watermark: Annotated[float, share("at least 0% and less than 100%", lambda part: part < 1)] = 0.0
    long_prefill_token_threshold: Count = 0
    max_num_partial_prefills: Annotated[int, _one(NO_PARTIAL_PREFILLS)] = 1
    max_long_partial_prefills: Annotated[int, _one(NO_PARTIAL_PREFILLS)] = 1
    scheduling_policy: Annotated[str, choice("fcfs", "priority")] = "fcfs"
    kv_offload: list[OffloadSection] = Field(default_factory=list)
    limit_mm_per_prompt: LimitsSection = LimitsSection()
    args: Text | None = None


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


class LatenciesSection(Section):
    """`fleet.latencies`."""

    network: Duration = 0.0
    gateway: Duration = 0.0
    tokenization: Duration = 0.0
    detokenization: Duration = 0.0
    stream_flush: Duration = 0.0


class GatewaySection(Section):
    """`fleet.gateway`."""

    max_outstanding: PositiveCount
    queue: Count | None = None


class FailureSection(Section):
    """One of `fleet.failures`."""

    replica: Count
    at: Duration
    down_for: Duration | None = None


class FleetSection(Section):
    """`fleet`."""

    replicas: PositiveCount = 1
    router: Annotated[str, choice("round_robin", "least_outstanding")] = "round_robin"
    latencies: LatenciesSection = LatenciesSection()
    model_load_time: Duration = 60.0
    max_retries: Count = 1
    failures: list[FailureSection] = Field(default_factory=list)
    gateway: GatewaySection | None = None


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


class PlanSection(Section):
    """`plan`."""

    reserve: Annotated[float, share("a share such as '20%'")] = 0.2
    drills: list[Annotated[str, choice("replica_missing")]] = Field(
        default_factory=lambda: ["replica_missing"]
    )
    duration: PositiveDuration = 600.0
    replications: PositiveCount = 8
    max_replicas: PositiveCount = 1024
    resolution: Annotated[float, share("more than 0% and less than 100%", lambda width: 0 < width < 1)] = 0.03
    literal_replay: Boolean = True


class ScenarioSection(Section):
    """The whole file; what is required is None where it is missing, so that all the rest can be checked."""

    version: Annotated[int, PlainValidator(_version, json_schema_input_type=json_schema.one_of(1))] | None = (
        None
    )
    name: Text | None = None
    model: Text | None = None
    gpu: Text | None = None
    engine: EngineSection = EngineSection()
    step_cost: StepCostSection = RooflineSection()
    demand: DemandSection | None = None
    fleet: FleetSection = FleetSection()
    slo: ObjectivesSection | None = None
    plan: PlanSection = PlanSection()
    validation: Text | None = None
    seed: Count = 0
    extends: Text | None = None
