"""What would change how much KV cache a replica has, and what that costs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from capsim.catalog.model import DTYPE_BYTES
from capsim.memory.question import MemoryQuestion
from capsim.memory.workspace import Workspace

HIGHEST_UTILIZATION = 0.95
"""Above it the driver and other processes soon lack memory."""


@dataclass(frozen=True)
class Change:
    """One setting that could be another.

    Attributes:
        name: the setting and its other value, as a scenario states it.
        price: what it costs.
        question: with the other value.
    """

    name: str
    price: str
    question: MemoryQuestion


def changes(question: MemoryQuestion) -> tuple[Change, ...]:
    """Single changes of a scenario that leave its model and its GPU as they are, in no order.

    A stated number of blocks is left out: what changes is the arithmetic that it came from.
    """
    question = replace(question, num_gpu_blocks=None)
    return (
        *_precision(question),
        *_utilization(question),
        *_parallelism(question),
        *_limits(question),
        *_graphs(question),
        *_text_only(question),
    )


def _precision(question: MemoryQuestion) -> Iterator[Change]:
    quality = "owes a quality gate"
    if DTYPE_BYTES[question.kv_dtype] > 1:
        yield Change("kv_cache_dtype fp8", quality, replace(question, kv_dtype="fp8"))
    for dtype in ("fp8", "int4"):
        changed = replace(question, weight_dtype=dtype)
        if changed.kv_bytes > question.kv_bytes:
            yield Change(f"dtype {dtype}", quality, changed)


def _utilization(question: MemoryQuestion) -> Iterator[Change]:
    """The highest that leaves room for CUDA graphs, in steps of 0.01."""
    now = question.gpu_memory_utilization
    for hundredth in range(round(100 * HIGHEST_UTILIZATION), int(100 * now), -1):
        changed = replace(question, gpu_memory_utilization=hundredth / 100)
        if hundredth / 100 > now and changed.holds_graphs():
            price = "less memory for others"
            yield Change(f"gpu_memory_utilization {hundredth / 100:g}", price, changed)
            return


def _parallelism(question: MemoryQuestion) -> Iterator[Change]:
    ranks = 2 * question.tensor_parallel_size
    wider = replace(question, tensor_parallel_size=ranks)
    if wider.splits:
        yield Change(f"tensor_parallel_size {ranks}", "twice the GPUs", wider)
    stages = 2 * question.pipeline_parallel_size
    if stages <= question.model.layers:
        price = "twice the GPUs; not simulated"
        yield Change(
            f"pipeline_parallel_size {stages}", price, replace(question, pipeline_parallel_size=stages)
        )


def _limits(question: MemoryQuestion) -> Iterator[Change]:
    sequences, tokens = question.max_num_seqs, question.max_num_batched_tokens
    if 2 * sequences <= tokens:
        price = "slower steps"
        yield Change(f"max_num_seqs {2 * sequences}", price, replace(question, max_num_seqs=2 * sequences))
    if tokens // 2 >= sequences:
        price = "slower prompts"
        yield Change(
            f"max_num_batched_tokens {tokens // 2}",
            price,
            replace(question, max_num_batched_tokens=tokens // 2),
        )


def _graphs(question: MemoryQuestion) -> Iterator[Change]:
    if Workspace.of(question.engine_version).graphs_inside and not question.enforce_eager:
        price = "slower steps"
        yield Change("enforce_eager true", price, replace(question, enforce_eager=True))


def _text_only(question: MemoryQuestion) -> Iterator[Change]:
    if question.images_per_prompt:
        yield Change("limit_mm_per_prompt 0", "no images", replace(question, images_per_prompt=0))
