"""What would make a model fit that does not."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import replace

from capsim.memory.question import MemoryQuestion, gib


def remedies(question: MemoryQuestion) -> tuple[str, ...]:
    """Single changes after which the engine would start, computed.

    Best first: what costs nothing (utilization), what costs GPUs but leaves every output as it is (tensor
    parallelism), what changes outputs a little (fp8, else int4, either then owes a quality gate), what refuses long
    requests. An engine that is to see may also be run for text alone.
    """
    if question.num_gpu_blocks is not None:
        needed = question.needed_blocks(question.max_model_len)
        return (f"num_gpu_blocks of at least {needed}", *_shorter(question, question.num_gpu_blocks))
    blocks = question.kv_bytes // question.layout.bytes_per_block
    found = (
        *_higher_utilization(question),
        *_more_ranks(question),
        *_precision(question),
        *_shorter(question, blocks),
        *_text_only(question),
    )
    return found or (_larger_gpu(question),)


def _fits(question: MemoryQuestion) -> bool:
    return question.kv_bytes >= question.needed_bytes and question.holds_graphs()


def _with_room(text: str, changed: MemoryQuestion) -> str:
    """A change that starts the engine may still leave a pool too small to serve: say how large it is."""
    sequences = changed.kv_bytes / changed.needed_bytes
    return f"{text} (KV cache for {sequences:.1f} sequences of max_model_len)"


def _higher_utilization(question: MemoryQuestion) -> Iterator[str]:
    """The lowest in steps of 0.01, up to 0.98: above it the driver's own memory is at risk."""
    for hundredth in range(int(100 * question.gpu_memory_utilization) + 1, 99):
        changed = replace(question, gpu_memory_utilization=hundredth / 100)
        if _fits(changed):
            yield _with_room(f"gpu_memory_utilization {hundredth / 100:g}", changed)
            return


def _more_ranks(question: MemoryQuestion) -> Iterator[str]:
    """The smallest degree of tensor parallelism that divides the heads and the MLP."""
    for ranks in range(question.tensor_parallel_size + 1, question.model.attention_heads + 1):
        changed = replace(question, tensor_parallel_size=ranks)
        if changed.splits and _fits(changed):
            yield _with_room(f"tensor_parallel_size {ranks}", changed)
            return


def _precision(question: MemoryQuestion) -> Iterator[str]:
    cache = replace(question, kv_dtype="fp8")
    weights = replace(question, weight_dtype="fp8")
    found = [
        _with_room(text, changed)
        for text, changed in (("an fp8 KV cache", cache), ("fp8 weights", weights))
        if changed != question and _fits(changed)
    ]
    yield from found
    both = replace(cache, weight_dtype="fp8")
    if not found and _fits(both):
        yield _with_room("fp8 weights and an fp8 KV cache", both)
    quarter = replace(question, weight_dtype="int4")
    if not found and not _fits(both) and _fits(quarter):
        yield _with_room("int4 weights", quarter)


def _shorter(question: MemoryQuestion, blocks: int) -> Iterator[str]:
    """The longest sequence that these blocks are enough for, of those that are shorter."""
    fits = bisect_right(range(1, question.max_model_len), blocks, key=question.needed_blocks)
    if fits > 0:
        yield f"max_model_len of at most {fits}"


def _text_only(question: MemoryQuestion) -> Iterator[str]:
    changed = replace(question, images_per_prompt=0)
    if changed != question and _fits(changed):
        yield _with_room("limit_mm_per_prompt 0: no images", changed)


def _larger_gpu(question: MemoryQuestion) -> str:
    missing = question.needed_bytes - question.kv_bytes
    memory = question.gpu.memory + int(missing / question.gpu_memory_utilization)
    return f"GPUs with at least {gib(memory)}"
