"""Batches as traffic makes them, which the fit never sees: of several chunks, and of decodes of unequal lengths."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from calibrate.microbenchmark.axes import SMALLEST_CONTEXT
from calibrate.microbenchmark.case import Batch
from calibrate.microbenchmark.limits import Limits
from capsim.cost import Chunk

SEED = 20_25
REGIMES = ("prefill", "decode", "mixed")
UNEVEN = 0.5
"""Standard deviation of the logarithm of contexts in one batch: longest over mean is about 2.5 among 32."""
MOST_CHUNKS = 3
_TRIES = 1000


def random_steps(limits: Limits, count: int) -> tuple[Batch, ...]:
    """Whole steps, as many of each regime; the same for the same limits."""
    random = np.random.default_rng(SEED)
    return tuple(_fitting(random, limits, REGIMES[place % 3], MOST_CHUNKS, UNEVEN) for place in range(count))


def held_out_batches(limits: Limits, count: int) -> tuple[Batch, ...]:
    """Batches of the kinds that the attention tables hold, at counts of their own: `count` of each regime."""
    random = np.random.default_rng(SEED + 1)
    return tuple(_fitting(random, limits, regime, 1, 0.0) for regime in REGIMES for _ in range(count))


def _fitting(
    random: np.random.Generator, limits: Limits, regime: str, most_chunks: int, uneven: float
) -> Batch:
    """A batch that the memory holds; a smaller one after so many that it does not."""
    for attempt in range(_TRIES):
        batch = _batch(random, limits, regime, most_chunks, uneven, 0.5 ** (attempt // 20))
        if limits.fits(batch):
            return batch
    raise AssertionError(f"no {regime} batch fits {limits}")


def _batch(
    random: np.random.Generator,
    limits: Limits,
    regime: str,
    most_chunks: int,
    uneven: float,
    scale: float,
) -> Batch:
    chunks: tuple[Chunk, ...] = ()
    contexts: tuple[int, ...] = ()
    room = limits.max_num_batched_tokens
    if regime != "prefill":
        most = min(limits.max_num_seqs, room // 2)
        contexts = tuple(_contexts(random, limits, _between(random, 1, max(1, scale * most)), uneven, scale))
        room -= len(contexts)
    if regime != "decode":
        tokens = _between(random, 16, max(16, scale * min(room, limits.max_model_len)))
        chunks = tuple(
            _chunks(random, limits, tokens, int(random.integers(1, min(most_chunks, tokens // 16) + 1)))
        )
    return Batch(chunks, contexts)


def _contexts(
    random: np.random.Generator, limits: Limits, decodes: int, uneven: float, scale: float
) -> Iterator[int]:
    mean = _between(
        random, SMALLEST_CONTEXT, max(SMALLEST_CONTEXT, scale * limits.max_model_len / (1 + 2 * uneven))
    )
    for factor in random.lognormal(-(uneven**2) / 2, uneven, decodes):
        yield int(np.clip(round(mean * factor), 1, limits.max_model_len))


def _chunks(random: np.random.Generator, limits: Limits, tokens: int, many: int) -> Iterator[Chunk]:
    """Chunks of random lengths that add up to `tokens`; every second one continues a prompt."""
    cuts = np.sort(random.choice(np.arange(1, tokens), many - 1, replace=False))
    for new in np.diff([0, *cuts.tolist(), tokens]):
        room = limits.max_model_len - int(new)
        past = _between(random, 1, room) if room > 1 and random.random() < 0.5 else 0
        yield Chunk(int(new), past)


def _between(random: np.random.Generator, low: float, high: float) -> int:
    """A count drawn with a uniform logarithm, both ends included."""
    return round(float(np.exp(random.uniform(np.log(low), np.log(max(low, high))))))
