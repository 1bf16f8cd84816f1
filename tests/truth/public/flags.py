"""Settings that a published run states in its command line, as far as they are simulated."""

from __future__ import annotations

import re
from dataclasses import dataclass

_NUMBER = re.compile(r"([a-z][a-z_-]+?)(?:=|\s+)([\d,]*\.?\d+)(?![\w.])", re.IGNORECASE)
_TRUE = re.compile(r"([a-z][a-z_-]+)=(true|false)", re.IGNORECASE)
_NAMES = {
    "max_num_seqs": "max_num_seqs",
    "max_batch_size": "max_num_seqs",
    "gpu_batch_size": "max_num_seqs",
    "max_num_batched_tokens": "max_num_batched_tokens",
    "max_num_tokens": "max_num_batched_tokens",
    "gpu_memory_utilization": "gpu_memory_utilization",
    "watermark": "watermark",
    "kvcache_free_gpu_mem_frac": "kv_fraction",
    "kv_cache_free_gpu_mem_fraction": "kv_fraction",
    "cuda_graph_max_bs": "cuda_graph_max_bs",
}
"""What the engines call a setting; of two names of one setting in a line the first counts."""


@dataclass(frozen=True)
class Flags:
    """Settings; None: not stated.

    Attributes:
        max_num_seqs: most sequences in a step; so are the other numbers vLLM's, whatever the engine calls them.
        max_num_batched_tokens: most tokens in a step.
        gpu_memory_utilization: share of the memory that vLLM uses.
        watermark: share of the pool that an admission leaves free.
        kv_fraction: share of what weights leave that TensorRT-LLM gives to KV.
        kv_tokens: tokens of the KV pool as the engine printed them.
        cuda_graph_max_bs: largest batch that SGLang captures.
        seqs_are_clients: the recipe sets `max_num_seqs` to the number of clients.
        enable_prefix_caching: stated either way.
        async_scheduling: stated.
        expert_parallel: stated.
        data_parallel: attention of data-parallel ranks.
        speculative: with a draft.
    """

    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    gpu_memory_utilization: float | None = None
    watermark: float | None = None
    kv_fraction: float | None = None
    kv_tokens: int | None = None
    cuda_graph_max_bs: int | None = None
    seqs_are_clients: bool = False
    enable_prefix_caching: bool | None = None
    async_scheduling: bool = False
    expert_parallel: bool = False
    data_parallel: bool = False
    speculative: bool = False

    @classmethod
    def of(cls, text: str) -> Flags:
        """Read the words of a command line or of a recipe."""
        numbers = _numbers(text)
        printed = re.search(r"\(([\d,]+) tokens\)", text)

        def whole(name: str) -> int | None:
            return int(numbers[name]) if name in numbers else None

        return cls(
            max_num_seqs=whole("max_num_seqs"),
            max_num_batched_tokens=whole("max_num_batched_tokens"),
            gpu_memory_utilization=numbers.get("gpu_memory_utilization"),
            watermark=numbers.get("watermark"),
            kv_fraction=numbers.get("kv_fraction"),
            kv_tokens=int(printed[1].replace(",", "")) if printed else None,
            cuda_graph_max_bs=whole("cuda_graph_max_bs"),
            seqs_are_clients="--max-num-seqs $CONC" in text,
            enable_prefix_caching=_prefix_caching(text),
            async_scheduling="--async-scheduling" in text,
            expert_parallel="--enable-expert-parallel" in text or bool(re.search(r"--ep[-_]size", text)),
            data_parallel=bool(re.search(r"--enable-dp-attention|\bdp=[2-9]|^DEP\d", text)),
            speculative=bool(re.search(r"--speculative", text)),
        )


def _numbers(text: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, value in _NUMBER.findall(text):
        known = _NAMES.get(name.strip("-").replace("-", "_").lower())
        if known:
            found.setdefault(known, float(value.replace(",", "")))
    return found


def _prefix_caching(text: str) -> bool | None:
    stated: dict[str, bool] = {name.lower(): value.lower() == "true" for name, value in _TRUE.findall(text)}
    if "enable-prefix-caching" in stated:
        return stated["enable-prefix-caching"]
    if (
        "--no-enable-prefix-caching" in text
        or "prefix caching off" in text
        or "--disable-radix-cache" in text
    ):
        return False
    return True if "--enable-prefix-caching" in text else None
