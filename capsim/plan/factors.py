"""What multiplies and what reduces the KV cache of a scenario, each against doing without it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from capsim.catalog.model import DTYPE_BYTES
from capsim.memory.kv import KvLayout
from capsim.memory.question import MemoryQuestion

Lengths = NDArray[np.int64]


class Factor(NamedTuple):
    """One factor.

    Attributes:
        name: what it is here.
        note: against what.
        tokens_ratio: tokens that the same bytes hold, here to without it, in sequences of `max_model_len`.
        concurrency_ratio: sequences that they hold at once, here to without it.
    """

    name: str
    note: str
    tokens_ratio: float
    concurrency_ratio: float


def factors(question: MemoryQuestion, final: Lengths, lengths: tuple[Lengths, Lengths]) -> tuple[Factor, ...]:
    """The factors that a scenario has.

    Args:
        question: model, precision and parallelism.
        final: tokens of each sequence at its end.
        lengths: prompt and output tokens of each.
    """
    return (
        *_architecture(question),
        *_copies(question),
        *_precision(question),
        _blocks(question, final),
        _ages(lengths),
    )


def live_tokens(prompt: Lengths, output: Lengths) -> float:
    """Tokens that a running sequence holds on average over its decode.

    Sequences are seen as often as they are long, and grow by a token a step: E[output * (prompt + output / 2)] /
    E[output]. Prompts being computed hold less, and are short beside the decode.
    """
    return float((output * (prompt + output / 2)).sum() / output.sum())


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
        ratio = _longest(question, replace(question, model=full).layout) / _longest(question, question.layout)
        yield Factor(name, "against as many KV heads as query heads", ratio, ratio)
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


def _copies(question: MemoryQuestion) -> Iterator[Factor]:
    copies = question.model.full_attention.copies(question.tensor_parallel_size)
    if copies > 1:
        name = f"{question.tensor_parallel_size} GPUs hold {copies} copies"
        note = "of each KV head or latent; against one copy, shared out"
        yield Factor(name, note, 1 / copies, 1 / copies)


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


def _ages(lengths: tuple[Lengths, Lengths]) -> Factor:
    prompt, output = lengths
    live, end = live_tokens(prompt, output), float((output * (prompt + output - 1)).sum() / output.sum())
    note = (
        f"a running sequence holds {live:,.0f} tokens on average, {end:,.0f} at its end; against all at their end "
        "at once"
    )
    return Factor("sequences of all ages", note, 1.0, end / live)


def _longest(question: MemoryQuestion, layout: KvLayout) -> float:
    """Bytes of a sequence of `max_model_len`."""
    return float(layout.blocks(question.max_model_len) * layout.bytes_per_block)
