from __future__ import annotations

from typing import Annotated

from pydantic import Field, PlainValidator

from capsim.catalog import json_schema
from capsim.catalog.schema import (
    Bandwidth,
    Boolean,
    Count,
    Duration,
    PositiveCount,
    PositiveShare,
    Section,
    Size,
    Text,
    choice,
    refused,
    share,
    shown,
    whole,
)

NO_PARTIAL_PREFILLS = (
    "vLLM's V1 engine refuses another (0.19: 'Concurrent Partial Prefill is not supported'); "
    "long_prefill_token_threshold alone lets several prompts be half computed"
)


def _single(accepted: bool | int, reason: str) -> PlainValidator:
    """Field of a setting that has one value in this version; `reason` says why another is refused."""
    kind = "neither true nor false" if isinstance(accepted, bool) else "no whole number"

    def read(value: object) -> bool | int:
        if value == accepted and isinstance(value, bool) == isinstance(accepted, bool):
            return accepted
        what = reason if type(value) is type(accepted) else f"{shown(value)} is {kind}"
        raise refused(what, shown(accepted))

    return PlainValidator(read, json_schema_input_type=json_schema.one_of(accepted))


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
        bool, _single(True, "an engine without chunked prefill is not modelled yet")
    ] = True
    enable_prefix_caching: Boolean = True
    async_scheduling: Boolean | None = None
    scheduler_reserve_full_isl: Boolean | None = None
    watermark: Annotated[float, share("at least 0% and less than 100%", lambda part: part < 1)] = 0.0
    long_prefill_token_threshold: Count = 0
    max_num_partial_prefills: Annotated[int, _single(1, NO_PARTIAL_PREFILLS)] = 1
    max_long_partial_prefills: Annotated[int, _single(1, NO_PARTIAL_PREFILLS)] = 1
    scheduling_policy: Annotated[str, choice("fcfs", "priority")] = "fcfs"
    kv_offload: list[OffloadSection] = Field(default_factory=list)
    limit_mm_per_prompt: LimitsSection = LimitsSection()
    args: Text | None = None
