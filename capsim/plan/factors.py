"""What multiplies and what reduces the KV cache of a scenario, each against doing without it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from capsim.catalog.model import DTYPE_BYTES, Model
from capsim.memory.kv import KvLayout
from capsim.memory.question import MemoryQuestion
from capsim.plan.factor import Factor
from capsim.plan.request_factors import request_factors
from capsim.plan.sequences import Lengths, Sequences


def factors(question: MemoryQuestion, pool_bytes: int, sequences: Sequences) -> tuple[Factor, ...]:
    """The factors that a scenario has: those of the model, of the engine, and of the requests.

    Args:
        question: model, precision and parallelism.
        pool_bytes: the KV cache of a rank.
        sequences: of the demand.
    """
    return (
        *_architecture(question),
        *_copies(question),
        *_data_parallelism(question),
        *_precision(question),
        _blocks(question, sequences.final),
        *request_factors(question, pool_bytes, sequences),
    )


def _architecture(question: MemoryQuestion) -> Iterator[Factor]:
    model, latent = question.model, question.model.latent
    if latent is not None:
        of_heads = model.attention_heads * (
            latent.nope_head_dim + latent.rope_head_dim + latent.value_head_dim
        )
        ratio = of_heads / (latent.kv_rank + latent.rope_head_dim)
        yield Factor(
            "one latent for all heads", "against keys and values of every head, on one GPU", ratio, ratio
        )
    elif model.kv_heads < model.attention_heads:
        name = f"{model.kv_heads} KV heads for {model.attention_heads} query heads"
        full = replace(model, kv_heads=model.attention_heads)
        yield _of_model(name, "against as many KV heads as query heads", question, full)
    if model.window is not None:
        kept = KvLayout.of(
            model,
            question.tensor_parallel_size,
            question.kv_dtype,
            question.block_size,
            stage=question.stage,
            frees_windows=False,
        )
        ratio = _longest(question, kept) / _longest(question, question.layout)
        note = "against layers that keep every token, at max_model_len"
        yield Factor(f"layers with a window of {model.window} tokens", note, ratio, ratio)
    if model.linear is not None:
        growing = replace(model, attention="gqa" if latent is None else "mla", linear=None, full_layers=())
        note = "against layers that keep every token, at max_model_len"
        yield _of_model(f"{model.linear_layers} layers with a state", note, question, growing)
    if model.kv_shared_layers:
        note = "against a KV cache in every layer"
        name = f"{model.kv_shared_layers} layers read an earlier one's"
        yield _of_model(name, note, question, replace(model, kv_shared_layers=0))


def _of_model(name: str, note: str, question: MemoryQuestion, other: Model) -> Factor:
    """What a longest sequence holds in another model, to what it holds in this one."""
    ratio = _longest(question, replace(question, model=other).layout) / _longest(question, question.layout)
    return Factor(name, note, ratio, ratio)


def _copies(question: MemoryQuestion) -> Iterator[Factor]:
    copies = question.model.full_attention.copies(question.tensor_parallel_size)
    if copies > 1:
        name = f"{question.tensor_parallel_size} GPUs hold {copies} copies"
        note = "of each KV head or latent; against one copy, shared out"
        yield Factor(name, note, 1 / copies, 1 / copies)


def _data_parallelism(question: MemoryQuestion) -> Iterator[Factor]:
    """Groups of ranks with sequences of their own, against one group of all of them that shares each sequence."""
    groups = question.data_parallel_size
    together = replace(
        question, tensor_parallel_size=groups * question.tensor_parallel_size, data_parallel_size=1
    )
    if groups == 1 or not together.splits:
        return
    ratio = groups * _longest(question, together.layout) / _longest(question, question.layout)
    note = f"each with sequences of its own; the replica against tensor_parallel_size {together.tensor_parallel_size}"
    yield Factor(f"attention on {groups} ranks", note, ratio, ratio)


def _precision(question: MemoryQuestion) -> Iterator[Factor]:
    if DTYPE_BYTES[question.kv_dtype] < 2:
        ratio = _longest(question, replace(question, kv_dtype="bfloat16").layout)
        ratio /= _longest(question, question.layout)
        yield Factor(f"KV cache in {question.kv_dtype}", "against 16 bit", ratio, ratio)


def _blocks(question: MemoryQuestion, final: Lengths) -> Factor:
    """Rounding of each sequence up to whole blocks, and in hybrids the padding of groups."""
    layout = question.layout
    lengths, times = np.unique(final, return_counts=True)
    used = np.average([layout.used_bytes(int(length)) for length in lengths], weights=times)
    held = (
        np.average([layout.blocks(int(length)) for length in lengths], weights=times) * layout.bytes_per_block
    )
    ratio = float(used / held)
    note = f"{1 - ratio:.2%} of what sequences hold is not filled; against blocks of one token"
    return Factor(f"blocks of {layout.block_size} tokens", note, 1.0, ratio)


def _longest(question: MemoryQuestion, layout: KvLayout) -> float:
    """Bytes of a sequence of `max_model_len`."""
    return float(layout.blocks(question.max_model_len) * layout.bytes_per_block)
