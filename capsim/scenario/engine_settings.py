from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class OffloadSettings:
    """One tier of KV offload; capacity and bandwidth are the whole replica's.

    Attributes:
        name: what to call it.
        capacity: what it holds, bytes.
        bandwidth: at which blocks are read from it, bytes per second.
        latency: time until the first block of a read arrives.
        conversion: time that each block takes on top, such as for another layout.
    """

    name: str
    capacity: int
    bandwidth: float
    latency: float = 0.0
    conversion: float = 0.0


@dataclass(frozen=True)
class LimitSettings:
    """What a prompt may hold beside text.

    Attributes:
        image: images; their tokens are part of the prompt's length. 0: the engine takes text only, and loads no vision
            encoder.
    """

    image: int = 0


@dataclass(frozen=True)
class EngineSettings:
    """One replica's engine; names are vLLM's.

    Attributes:
        name: engine, ``vllm``.
        version: its version, for the record of every result.
        tensor_parallel_size: GPUs that share each layer.
        pipeline_parallel_size: stages that hold the layers, each on as many GPUs as share a layer.
        data_parallel_size: groups of GPUs, each with all of the attention and with sequences and a KV pool of its own,
            that share the experts; counted by fit, not simulated.
        enable_expert_parallel: experts are dealt out whole to the GPUs that share a layer, those of all groups,
            instead of each one being split.
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
        watermark: share of the KV blocks that an admission leaves free, unless nothing runs.
        long_prefill_token_threshold: most tokens of one prompt computed in one step, so that a long prompt leaves room
            for those behind it; 0: no such limit.
        scheduling_policy: ``fcfs``, in order of arrival, or ``priority``, the smallest priority first.
        kv_offload: tiers behind the GPU's memory that KV is written to and found in, the nearest first.
        limit_mm_per_prompt: most images of a prompt.
    """

    name: str
    version: str
    tensor_parallel_size: int
    pipeline_parallel_size: int
    data_parallel_size: int
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
    watermark: float
    long_prefill_token_threshold: int
    scheduling_policy: str
    kv_offload: tuple[OffloadSettings, ...]
    limit_mm_per_prompt: LimitSettings
