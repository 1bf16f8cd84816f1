"""What requests multiply and reduce in the KV cache: how many run, how long, how many copies, and what they share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from capsim.memory.kv import KvLayout
from capsim.memory.question import MemoryQuestion
from capsim.plan.factor import Factor
from capsim.plan.sequences import Lengths, Sequences, mean_blocks


def request_factors(question: MemoryQuestion, pool_bytes: int, sequences: Sequences) -> Iterator[Factor]:
    """The factors that the demand brings.

    Args:
        question: model, precision and limits.
        pool_bytes: the KV cache of a rank.
        sequences: of the demand.
    """
    yield _ages(sequences)
    yield _at_once(question, pool_bytes, sequences)
    yield _longer(question, sequences)
    yield from _copies_of_a_request(question.layout, sequences)
    yield from _prefixes(question.layout, sequences)
    yield from _images(question, pool_bytes, sequences)


def request_blocks(layout: KvLayout, sequences: Sequences, width: int) -> float:
    """Blocks that a request of so many samples or beams holds at its end, on average.

    The samples share the full blocks of their prompt, and each has a tail: what is left of the prompt and its own
    output, ``width * blocks(final) - (width - 1) * floor((prompt - 1) / block_size)``. vLLM runs each sample as a
    sequence of its own that finds the prompt in the prefix cache, where the last prompt token is never found
    (``ParentRequest`` of vllm/v1/engine/parallel_sampling.py, ``get_computed_blocks`` of
    vllm/v1/core/kv_cache_manager.py): without prefix caching they share nothing. Windows and states are held by each.
    """
    blocks = width * mean_blocks(layout, sequences.final)
    if not sequences.prefix_caching:
        return blocks
    kept = [group.block_size for group in layout.groups if group.window is None and group.kind != "state"]
    shared = sum(float(((sequences.prompt - 1) // size).mean()) for size in kept)
    return blocks - (width - 1) * shared


def _ages(sequences: Sequences) -> Factor:
    live, end = sequences.live_tokens, sequences.ending_tokens
    note = (
        f"a running sequence holds {live:,.0f} tokens on average, {end:,.0f} at its end; against all at their end "
        "at once"
    )
    return Factor("sequences of all ages", note, 1.0, end / live)


def _at_once(question: MemoryQuestion, pool_bytes: int, sequences: Sequences) -> Factor:
    """Sequences at once hold as many times the KV of one; those allowed also cost the sampler's workspace."""
    one = _without(pool_bytes, question, replace(question, max_num_seqs=1))
    live = sequences.live_tokens
    note = (
        f"hold {sequences.running * live:,.0f} live tokens, one holds {live:,.0f}; the ratio is the workspace for "
        f"max_num_seqs {question.max_num_seqs:,} against that for 1"
    )
    return Factor(f"{sequences.running:,} sequences at once", note, one, one)


def _longer(question: MemoryQuestion, sequences: Sequences) -> Factor:
    """What twice the output would do; the one factor that is not here yet."""
    prompt, longest = sequences.prompt, question.max_model_len
    longer = replace(sequences, output=np.minimum(2 * sequences.output, longest - prompt))
    here, there = (mean_blocks(question.layout, held.final) for held in (sequences, longer))
    times = (longer.output.sum() * longer.live_tokens) / (sequences.output.sum() * sequences.live_tokens)
    note = (
        f"if they were, up to max_model_len: {longer.live_tokens:,.0f} live tokens a sequence, and at the same rate "
        f"{times:.3g} times as many in all, since each also stays longer"
    )
    return Factor("outputs twice as long", note, 1.0, here / there)


def _copies_of_a_request(layout: KvLayout, sequences: Sequences) -> Iterator[Factor]:
    beams, samples = sequences.stated("beam_width"), sequences.stated("n", "best_of")
    shares = (
        "the prompt's full blocks once"
        if sequences.prefix_caching
        else "the prompt too, without prefix caching"
    )
    if beams > 1:
        note = f"a request holds {shares}, and a tail for each; beams that part late share more; against one"
        yield _of_width(f"{beams} beams a request", note, layout, sequences, beams)
    elif samples > 1:
        note = f"a request holds {shares}, and a tail for each; against one"
        yield _of_width(f"{samples} samples a request", note, layout, sequences, samples)


def _of_width(name: str, note: str, layout: KvLayout, sequences: Sequences, width: int) -> Factor:
    """Fewer requests fit, but what their samples share lets the same bytes stand for more tokens."""
    ratio = mean_blocks(layout, sequences.final) / request_blocks(layout, sequences, width)
    return Factor(name, note, width * ratio, ratio)


def _prefixes(layout: KvLayout, sequences: Sequences) -> Iterator[Factor]:
    """At best, what prompts share is held once for all."""
    if not (sequences.prefix_reuse > 0 and sequences.prefix_caching):
        return
    own: Lengths = sequences.final - (sequences.prefix_reuse * sequences.prompt).astype(np.int64)
    ratio = mean_blocks(layout, sequences.final) / mean_blocks(layout, own)
    note = (
        f"{sequences.prefix_reuse:.0%} of the prompt tokens, at best held once for all; against none shared"
    )
    yield Factor("shared prefixes", note, ratio, ratio)


def _images(question: MemoryQuestion, pool_bytes: int, sequences: Sequences) -> Iterator[Factor]:
    """Images are tokens of the prompt, and their encoder takes from the cache's bytes."""
    if question.images is None:
        return
    tokens = question.images_per_prompt * question.images.vision.image_tokens
    text = sequences.final - np.minimum(tokens, sequences.prompt - 1)
    layout = question.layout
    pool = _without(pool_bytes, question, replace(question, images_per_prompt=0))
    ratio = mean_blocks(layout, text) / mean_blocks(layout, sequences.final)
    note = f"at most {tokens:,} tokens of each prompt, and the encoder's memory; against text alone"
    yield Factor(f"images, {question.images_per_prompt} a prompt", note, pool, pool * ratio)


def _without(pool_bytes: int, question: MemoryQuestion, other: MemoryQuestion) -> float:
    """The pool's bytes to those under other settings; a stated or measured pool differs by as much as the model's."""
    return pool_bytes / (pool_bytes + other.kv_bytes - question.kv_bytes)
