"""What a replica's memory holds, as plain data: bytes and tokens."""

from __future__ import annotations

from dataclasses import asdict
from statistics import fmean
from typing import Any

from capsim.memory.budget import MemoryFit
from capsim.plan.deployment import Fitted

Json = dict[str, Any]


def memory_record(deployment: Fitted) -> Json:
    """The memory table, the KV pool, and what the demand's sequences cost in it."""
    memory = deployment.memory
    lengths = deployment.sample()
    total = sorted((lengths.prompt + lengths.output).tolist())
    sequences = {
        "p50": total[int(0.5 * (len(total) - 1))],
        "mean": round(fmean(total)),
        "p95": total[int(0.95 * (len(total) - 1))],
        "longest": deployment.scenario.engine.max_model_len,
    }
    return {
        "lines": [asdict(line) for line in memory.lines],
        "num_gpu_blocks": memory.num_gpu_blocks,
        "usable_blocks": memory.usable_blocks,
        "block_size": memory.layout.block_size,
        "kv_tokens": memory.kv_tokens,
        "replica_tokens": memory.replica_tokens,
        "bytes_per_token": memory.bytes_per_token if memory.layout.plain else None,
        "max_num_seqs": deployment.engine.max_num_seqs,
        "sequences": [_sequence(memory, name, tokens) for name, tokens in sequences.items()],
    }


def _sequence(memory: MemoryFit, name: str, tokens: int) -> Json:
    blocks = memory.layout.blocks(tokens)
    return {
        "name": name,
        "tokens": tokens,
        "blocks": blocks,
        "bytes": blocks * memory.layout.bytes_per_block,
        "concurrency": int(memory.concurrency(tokens)),
    }
