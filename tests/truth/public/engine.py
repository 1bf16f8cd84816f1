"""An engine's limits: what the row states, and its own defaults for the rest.

Every engine is simulated with vLLM's scheduler: of SGLang and TensorRT-LLM only the limits and the KV pool are their
own.
"""

from __future__ import annotations

import re

from capsim.engine import EngineConfiguration
from capsim.engine.footprint import Footprint
from capsim.errors import Infeasible
from capsim.memory.budget import MemoryFit, fit_memory
from capsim.memory.kv import KvLayout
from capsim.memory.question import MemoryQuestion
from capsim.memory.weights import weight_bytes
from capsim.scenario.version_defaults import default_of
from tests.truth.public import refusal
from tests.truth.public.load import Load
from tests.truth.public.refusal import Refused
from tests.truth.public.rows import Row
from tests.truth.public.service import Hardware

VERSIONS = {"aiconfigurator-silicon": "0.11.0", "inference-sim-training": "0.15.1", "github-issue": "0.23.0"}
"""vLLM's version where a source does not tell it: the release of the month, or of its other runs."""
VLLM_LARGE, VLLM_SMALL = (8192, 1024), (2048, 256)
"""Tokens and sequences of a step of vLLM's server on GPUs of 70 GiB and more but the A100, and on the others (its
``vllm/engine/arg_utils.py`` since 0.9)."""
VLLM_UTILIZATION = 0.9
SGLANG = (8192, 2048)
"""Tokens of a chunk on GPUs of 60 to 160 GB, and requests at once (SGLang's ``server_args.py`` of 0.5)."""
TENSORRT_LLM = (8192, 2048)
"""Tokens and sequences of a step of TensorRT-LLM by default (its ``--max_num_tokens`` and ``--max_batch_size``)."""
TENSORRT_LLM_KV = 0.9
"""Share of the memory that weights and activations leave which TensorRT-LLM gives to KV by default."""
WORKSPACE_VERSION = "0.11.0"
"""vLLM's version whose memory beside weights and KV stands for TensorRT-LLM's."""
BLOCK = 16
_MIB = 1 << 20


def engine_of(row: Row, hardware: Hardware, load: Load, longest: int) -> EngineConfiguration:
    """Limits and KV pool of a replica.

    Args:
        row: its flags.
        hardware: its GPUs.
        load: of which a recipe makes the most sequences.
        longest: sequence of the run, tokens.

    Raises:
        Refused: the weights or the longest sequence do not fit, by capsim's count.
    """
    flags, version = row.flags, _version(row)
    tokens, sequences = _defaults(row, hardware)
    tokens = flags.max_num_batched_tokens or tokens
    stated = load.clients if flags.seqs_are_clients else flags.max_num_seqs
    sequences = min(stated or sequences, tokens)
    try:
        memory = _memory(row, hardware, tokens, sequences, longest)
    except Infeasible as error:
        raise Refused(refusal.MEMORY, str(error).split("\n")[0]) from error
    footprint = Footprint.of(memory.layout)
    vllm = row.engine == "vLLM"
    caching = flags.enable_prefix_caching
    return EngineConfiguration(
        memory.num_gpu_blocks,
        block_size=footprint.block_size,
        max_num_seqs=sequences,
        max_num_batched_tokens=tokens,
        reserve_full_prompt=not vllm or default_of("scheduler_reserve_full_isl", version),
        enable_prefix_caching=(row.engine != "vLLM V0" if caching is None else caching) and footprint.plain,
        watermark=flags.watermark or 0.0,
        async_scheduling=vllm and (flags.async_scheduling or default_of("async_scheduling", version)),
        groups=footprint,
    )


def _version(row: Row) -> str:
    if row.engine in {"TensorRT-LLM", "SGLang"}:
        return WORKSPACE_VERSION
    told = re.search(r"\d+\.\d+[.\d]*", row["engine_version"])
    return told[0] if told else VERSIONS[row["source_group"]]


def _defaults(row: Row, hardware: Hardware) -> tuple[int, int]:
    """Tokens and sequences of a step."""
    if row.engine == "SGLang":
        return SGLANG
    if row.engine == "TensorRT-LLM":
        return TENSORRT_LLM
    large = hardware.gpu.memory >= 70 << 30 and not hardware.gpu.name.startswith("a100")
    return VLLM_LARGE if large else VLLM_SMALL


def _memory(row: Row, hardware: Hardware, tokens: int, sequences: int, longest: int) -> MemoryFit:
    def question(utilization: float, blocks: int | None = None) -> MemoryQuestion:
        return MemoryQuestion(
            hardware.model,
            hardware.gpu,
            hardware.ranks,
            hardware.weights,
            hardware.kv,
            BLOCK,
            utilization,
            longest,
            sequences,
            tokens,
            _version(row),
            num_gpu_blocks=blocks,
            expert_parallel=hardware.expert_parallel,
        )

    if row.flags.kv_tokens:
        return fit_memory(question(VLLM_UTILIZATION, row.flags.kv_tokens // BLOCK + 1))
    if row.engine == "SGLang":
        return fit_memory(question(VLLM_UTILIZATION, max(1, _sglang_blocks(row, hardware, tokens))))
    if row.engine == "TensorRT-LLM":
        whole = question(1.0)
        share = row.flags.kv_fraction or TENSORRT_LLM_KV
        return fit_memory(question(1.0, max(1, int(share * whole.kv_bytes) // whole.layout.bytes_per_block)))
    return fit_memory(question(row.flags.gpu_memory_utilization or VLLM_UTILIZATION))


def _sglang_blocks(row: Row, hardware: Hardware, tokens: int) -> int:
    """KV blocks that SGLang's ``mem_fraction_static`` leaves, by its own rule for that share (``server_args.py``)."""
    graphs = row.flags.cuda_graph_max_bs or (256 if hardware.ranks < 4 else 512)
    reserved = 512 + 1.5 * max(tokens, 2048) + 2 * graphs + 1024 * hardware.ranks / 8
    static = hardware.gpu.memory - max(reserved, 10 * 1024) * _MIB
    weights = weight_bytes(
        hardware.model, hardware.ranks, hardware.weights, expert_parallel=hardware.expert_parallel
    )
    layout = KvLayout.of(hardware.model, hardware.ranks, hardware.kv, BLOCK)
    return int(static - weights) // layout.bytes_per_block
