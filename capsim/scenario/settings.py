"""What a scenario settles, as plain values in seconds, bytes and tokens; every default is filled in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from capsim.catalog import Gpu, Model
from capsim.fleet.configuration import FleetConfiguration
from capsim.measure.objectives import Objectives

Scalar = str | int | float | bool | None


@dataclass(frozen=True)
class EngineSettings:
    """One replica's engine; names are vLLM's.

    Attributes:
        name: engine, ``vllm``.
        version: its version, for the record of every result.
        tensor_parallel_size: GPUs that share each layer.
        pipeline_parallel_size: stages that hold the layers, each on as many GPUs as share a layer.
        enable_expert_parallel: experts are dealt out whole to the GPUs that share a layer, instead of each one being
            split.
        dtype: of the weights: ``bfloat16``, ``float16``, ``fp8``, or weight-only ``int8`` or ``int4`` (GPTQ, AWQ),
            computed at 16 bits.
        kv_cache_dtype: ``auto`` (16 bit), ``bfloat16`` or ``fp8``.
        max_model_len: longest sequence, prompt and output together, tokens.
        max_num_seqs: most sequences running at once.
        max_num_batched_tokens: most tokens computed in one step.
        block_size: tokens in one KV block.
        gpu_memory_utilization: share of the GPU's memory that the engine may use.
        num_gpu_blocks: KV blocks of the pool where they are stated; None: the memory model counts them.
        enforce_eager: no CUDA graphs are captured, which leaves memory and costs time in every step.
        enable_chunked_prefill: prompts are computed in chunks beside the decodes.
        enable_prefix_caching: KV stays in freed blocks until they are taken; prompts that begin with the same tokens
            find it there, and a preempted sequence its own.
        async_scheduling: a step is scheduled while the one before runs.
        scheduler_reserve_full_isl: a sequence is admitted only when blocks for its whole prompt are free.
    """

    name: str
    version: str
    tensor_parallel_size: int
    pipeline_parallel_size: int
    enable_expert_parallel: bool
    dtype: str
    kv_cache_dtype: str
    max_model_len: int
    max_num_seqs: int
    max_num_batched_tokens: int
    block_size: int
    gpu_memory_utilization: float
    num_gpu_blocks: int | None
    enforce_eager: bool
    enable_chunked_prefill: bool
    enable_prefix_caching: bool
    async_scheduling: bool
    scheduler_reserve_full_isl: bool


@dataclass(frozen=True)
class RooflineSettings:
    """Step cost from data sheets; what is None keeps the roofline's own efficiency.

    Attributes:
        compute_efficiency: share of the dense compute rate that the matrix products reach.
        weight_bandwidth_efficiency: share of the memory bandwidth at which weights are read.
        kv_bandwidth_efficiency: share of the memory bandwidth at which the KV cache is read.
        attention_efficiency: share of the dense compute rate that prefill attention reaches.
        host_overhead: seconds of each step in which the GPU waits for the host.
        routing_skew: exponent of the power law by which tokens choose experts; 0 is uniform.
    """

    compute_efficiency: float | None = None
    weight_bandwidth_efficiency: float | None = None
    kv_bandwidth_efficiency: float | None = None
    attention_efficiency: float | None = None
    host_overhead: float | None = None
    routing_skew: float = 0.0


@dataclass(frozen=True)
class ProfileSettings:
    """Step cost measured; `path` is the absolute path of the profile."""

    path: Path


@dataclass(frozen=True)
class ConstantSettings:
    """Every step takes `seconds`."""

    seconds: float


@dataclass(frozen=True)
class LinearSettings:
    """Seconds of a step as a sum.

    Attributes:
        base: per step.
        per_prefill_token: per prompt token computed.
        per_chunk: per prefill chunk.
        per_query_key_pair: per pair of query and key in the chunks' attention.
        per_decode: per decoding sequence.
        per_context_token: per token of context that decodes read.
    """

    base: float = 0.0
    per_prefill_token: float = 0.0
    per_chunk: float = 0.0
    per_query_key_pair: float = 0.0
    per_decode: float = 0.0
    per_context_token: float = 0.0


StepCostSettings = RooflineSettings | ProfileSettings | ConstantSettings | LinearSettings


@dataclass(frozen=True)
class TraceSettings:
    """A recorded trace.

    Attributes:
        path: absolute path of its file.
        format: of the file: ``azure`` or ``mooncake``.
        block_size: tokens that one hash id of a mooncake trace stands for; None in other formats.
    """

    path: Path
    format: str
    block_size: int | None = None


@dataclass(frozen=True)
class ArrivalSettings:
    """How synthetic requests arrive.

    Attributes:
        process: ``poisson``, ``constant`` or ``gamma``.
        burstiness: shape of the gamma distribution of the gaps; 1 is Poisson, less is burstier. None elsewhere.
    """

    process: str = "poisson"
    burstiness: float | None = None


@dataclass(frozen=True)
class LengthSettings:
    """A distribution of lengths in tokens; what a distribution does not have is None.

    Attributes:
        distribution: ``fixed``, ``uniform``, ``lognormal`` or ``geometric``.
        value: of ``fixed``.
        low: least of ``uniform``.
        high: greatest of ``uniform``.
        mean: of ``lognormal`` and ``geometric``, before `max` cuts.
        cv: coefficient of variation of ``lognormal``.
        max: longest length of ``lognormal``.
    """

    distribution: str
    value: int | None = None
    low: int | None = None
    high: int | None = None
    mean: float | None = None
    cv: float | None = None
    max: int | None = None


@dataclass(frozen=True)
class PrefixSettings:
    """Prefixes that synthetic prompts begin with, such as system prompts.

    Attributes:
        tokens: length of each prefix, part of the prompt's length; a shorter prompt shares nothing.
        count: different prefixes, each as likely.
        share: share of the requests that begin with one.
    """

    tokens: int
    count: int = 8
    share: float = 1.0


@dataclass(frozen=True)
class SyntheticSettings:
    """A synthetic workload; without `prefix` no two prompts share anything."""

    arrivals: ArrivalSettings
    prompt_tokens: LengthSettings
    output_tokens: LengthSettings
    prefix: PrefixSettings | None = None


@dataclass(frozen=True)
class DemandSettings:
    """What is to be served; exactly one of `trace` and `synthetic` is set.

    Attributes:
        target: demand per second.
        unit: what it counts: ``requests`` or ``output_tokens``.
        trace: the recorded trace that the requests come from.
        synthetic: or how they are made.
        sampling: sampling parameters, recorded with every result.
    """

    target: float
    unit: str
    trace: TraceSettings | None = None
    synthetic: SyntheticSettings | None = None
    sampling: Mapping[str, Scalar] = field(default_factory=dict)


@dataclass(frozen=True)
class PlanSettings:
    """How the replica count is found and proved.

    Attributes:
        reserve: share of the demand that the full fleet must hold on top of it.
        drills: failures replayed against the fleet at the demand, e.g. ``replica_missing``.
        duration: simulated seconds of one replication.
        replications: most replications of one point.
        max_replicas: largest fleet that is tried.
        resolution: width of the operating point's bracket, as a share of it.
        literal_replay: the trace itself is replayed beside its resamples.
    """

    reserve: float
    drills: tuple[str, ...]
    duration: float
    replications: int
    max_replicas: int
    resolution: float
    literal_replay: bool


@dataclass(frozen=True)
class Scenario:
    """Everything that one question needs."""

    name: str
    model: Model
    gpu: Gpu
    engine: EngineSettings
    step_cost: StepCostSettings
    demand: DemandSettings
    fleet: FleetConfiguration
    objectives: Objectives
    plan: PlanSettings
    seed: int
