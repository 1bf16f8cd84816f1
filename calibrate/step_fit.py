"""From the seconds of whole steps to what tokens, chunks and decodes cost, by non-negative least squares.

A step's seconds are taken as ``T(tokens) + sum over chunks of P(new, past) + D(decodes, context)``:

- ``T`` is linear between the token counts that were measured, and never falls;
- ``D`` is ``slope(decodes) * context``, the slope linear between the numbers of decodes that were measured with two
  contexts or more, so that ``T`` is the intercept at context 0; the slope never falls either;
- ``P`` is ``rate * (new * past + new * (new + 1) / 2)``, query-key pairs at one rate, or the reading of the chunk's
  keys and values at the speed of one decode, whichever a roofline says takes longer.

All of it is linear in what is sought, none of which can be negative, and is fitted at once to the relative errors.
Where the steps cannot tell a chunk's attention from its tokens (every step is one chunk without a past), the rate is
the roofline's and is tagged assumed.

Steps of a live engine vary from one to the next. For these the counts are few, and what each sequence and each chunk
adds whatever its length (sampling, a place in the batch, the input of a new request) is sought besides.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from calibrate.regime import tokens_of
from capsim.cost import BatchShape, Chunk

Floats = NDArray[np.float64]

NOISY_WEIGHT = 0.5
"""Of a noisy step's residual, so that its square counts a quarter: as of a spread twice as large."""
MOST_POINTS = 64
"""Of an axis; measurements that are scattered over more counts than that are thinned to a geometric grid."""
LIVE_SPACING = 1.5
"""Between the counts of an axis for steps of a live engine: a line through them is at most 4 % off what is in
proportion to the square root, and each has several steps to rest on."""
TOLD_APART = 0.02
"""Share of the pairs' column, in the norm of relative errors, that no other column explains; below it the steps say
nothing about the rate, and noise of some per mille would decide it."""


@dataclass(frozen=True)
class MeasuredStep:
    """One step as a source measured it.

    Attributes:
        batch: what was in it.
        seconds: it took, above 0.
        noisy: the source itself, or repetition, says that the figure is uncertain.
    """

    batch: BatchShape
    seconds: float
    noisy: bool = False

    @property
    def shape(self) -> tuple[tuple[Chunk, ...], int, int]:
        """What the tables look at: chunks, decodes and their context."""
        return tuple(self.batch.chunks), self.batch.decodes, self.batch.context

    @property
    def tokens(self) -> int:
        """Tokens that it computed."""
        return tokens_of(self.batch)


@dataclass(frozen=True)
class Rates:
    """What a roofline says of the same model and GPU.

    Attributes:
        per_pair: seconds of all layers for one pair of query and key of a chunk.
        per_context: seconds of all layers for reading one token of context.
    """

    per_pair: float
    per_context: float

    def reads(self, chunk: Chunk) -> bool:
        """Whether reading its keys and values takes a chunk longer than its arithmetic."""
        return self.per_context * (chunk.past + chunk.new) > self.per_pair * pairs_of(chunk)


@dataclass(frozen=True)
class StepFit:
    """The fitted pieces of a step.

    Attributes:
        counts: token counts, strictly increasing; `tokens` are seconds at each.
        decodes: numbers of decodes, strictly increasing; `slopes` are seconds of all layers per token of context that
            each of them has.
        per_pair: seconds of all layers for one pair of query and key of a chunk.
        assumed_rate: `per_pair` is the roofline's.
        rates: the roofline's, which decides whether a chunk is arithmetic or reading.
        per_sequence, per_chunk: seconds that each sequence (decode or chunk) adds, and each chunk besides.
    """

    counts: tuple[int, ...]
    tokens: tuple[float, ...]
    decodes: tuple[int, ...]
    slopes: tuple[float, ...]
    per_pair: float
    assumed_rate: bool
    rates: Rates
    per_sequence: float = 0.0
    per_chunk: float = 0.0

    def step(self, batch: BatchShape) -> float:
        """Seconds of a step."""
        seconds = self.token_seconds(tokens_of(batch)) + sum(
            self.chunk_seconds(Chunk(*each)) for each in batch.chunks
        )
        seconds += self.per_sequence * (batch.decodes + len(batch.chunks))
        if batch.decodes:
            seconds += self.decode_seconds(batch.decodes, batch.context / batch.decodes)
        return seconds

    def token_seconds(self, tokens: int) -> float:
        """``T``; beyond the largest count with the last slope."""
        return float(token_basis(self.counts, tokens) @ np.diff(self.tokens, prepend=0.0))

    def chunk_seconds(self, chunk: Chunk) -> float:
        """``P``, and what a chunk adds whatever its length."""
        if self.rates.reads(chunk):
            return self.per_chunk + self.slopes[0] / self.decodes[0] * (chunk.past + chunk.new)
        return self.per_chunk + self.per_pair * pairs_of(chunk)

    def decode_seconds(self, decodes: int, context: float) -> float:
        """``D`` of so many decodes of this context each."""
        return float(decode_basis(self.decodes, decodes) @ np.diff(self.slopes, prepend=0.0)) * context


def pairs_of(chunk: Chunk) -> float:
    """Pairs of query and key in a chunk's causal attention."""
    return chunk.new * chunk.past + chunk.new * (chunk.new + 1) / 2


def token_basis(counts: Sequence[int], tokens: float) -> Floats:
    """Share of each rise from one count to the next that a batch of these tokens has; the first is the level."""
    basis = decode_basis(counts, tokens)
    basis[0] = 1.0
    return basis


def decode_basis(counts: Sequence[int], decodes: float) -> Floats:
    """The same, except that below the first count the level itself is in proportion."""
    rises = [(decodes - low) / (high - low) for low, high in pairwise(counts)]
    basis = np.clip([decodes / counts[0], *rises], 0.0, 1.0)
    if rises:
        basis[-1] = max(0.0, rises[-1])
    return basis


def thinned(counts: Iterable[int], ratio: float = 1.0) -> tuple[int, ...]:
    """An axis through these counts: all of them, or a geometric grid of them where there are too many.

    Args:
        counts: what was measured.
        ratio: of neighbours, at least.
    """
    known = sorted(set(counts))
    if len(known) <= MOST_POINTS and ratio == 1.0:
        return tuple(known)
    ratio = max(ratio, (known[-1] / max(1, known[0])) ** (1 / MOST_POINTS))
    kept = [known[0]]
    for count in known:
        if count >= max(kept[-1] + 1, kept[-1] * ratio):
            kept.append(count)
    return tuple(kept) if kept[-1] == known[-1] else (*kept, known[-1])


def fit(steps: Sequence[MeasuredStep], rates: Rates, *, live: bool = False) -> StepFit:
    """Fit the pieces to measured steps.

    Args:
        steps: of distinct shapes, among them pure decodes of some number at two contexts or more, and chunks.
        rates: the roofline's.
        live: they are of a live engine.
    """
    ratio = LIVE_SPACING if live else 1.0
    counts = thinned((step.tokens for step in steps), ratio)
    decodes = thinned(_told_decodes(steps), ratio)
    columns = np.array([_columns(step.batch, counts, decodes, rates, live) for step in steps])
    seconds = np.array([step.seconds for step in steps])
    certain = np.array([NOISY_WEIGHT if step.noisy else 1.0 for step in steps])
    found, assumed = _solved(columns, seconds, certain / seconds, rates)
    if live:
        # Errors relative to what was measured count a step that took too long for less than one that took too little,
        # so that this fit lies below the mean, by twice the relative variance; and time adds up by the mean.
        found, assumed = _solved(columns, seconds, certain / (columns @ found), rates)
    token_part, decode_part = found[: len(counts)], found[len(counts) : -3]
    return StepFit(
        counts=counts,
        tokens=tuple(np.cumsum(token_part).tolist()),
        decodes=decodes,
        slopes=tuple(np.cumsum(decode_part).tolist()),
        per_pair=float(found[-1]),
        assumed_rate=assumed,
        rates=rates,
        per_sequence=float(found[-3]),
        per_chunk=float(found[-2]),
    )


def _solved(columns: Floats, seconds: Floats, weights: Floats, rates: Rates) -> tuple[Floats, bool]:
    """What each column counts with, and whether the pairs' figure is the roofline's."""
    from scipy.optimize import nnls

    weighted, target = columns * weights[:, None], seconds * weights
    assumed = not _is_told_apart(weighted)
    if assumed:
        target = target - rates.per_pair * weighted[:, -1]
        weighted[:, -1] = 0.0
    norms = np.linalg.norm(weighted, axis=0)
    norms[norms == 0] = 1.0
    found, _ = nnls(weighted / norms, target, maxiter=30 * len(norms))
    found = found / norms
    if assumed:
        found[-1] = rates.per_pair
    return found, assumed


def _columns(
    batch: BatchShape, counts: Sequence[int], decodes: Sequence[int], rates: Rates, live: bool
) -> Floats:
    """What each sought figure is multiplied with in this step's seconds."""
    slopes = np.zeros(len(decodes))
    if batch.decodes:
        slopes += decode_basis(decodes, batch.decodes) * (batch.context / batch.decodes)
    pairs = 0.0
    for chunk in (Chunk(*each) for each in batch.chunks):
        if rates.reads(chunk):
            slopes[0] += (chunk.past + chunk.new) / decodes[0]
        else:
            pairs += pairs_of(chunk)
    chunks = len(batch.chunks)
    each = (batch.decodes + chunks, chunks) if live else (0, 0)
    return np.array([*token_basis(counts, tokens_of(batch)), *slopes, *each, pairs])


def _is_told_apart(weighted: Floats) -> bool:
    """Whether the last column is no mixture of the others."""
    others, pairs = weighted[:, :-1], weighted[:, -1]
    norm = float(np.linalg.norm(pairs))
    if norm == 0:
        return False
    norms = np.linalg.norm(others, axis=0)
    scaled = others / np.where(norms > 0, norms, 1.0)
    mixture = scaled @ np.linalg.lstsq(scaled, pairs, rcond=1e-9)[0]
    return float(np.linalg.norm(pairs - mixture)) > TOLD_APART * norm


def _told_decodes(steps: Iterable[MeasuredStep]) -> list[int]:
    """Numbers of decodes that were measured at two contexts or more, without chunks."""
    contexts: dict[int, set[int]] = {}
    for step in steps:
        if step.batch.decodes and not step.batch.chunks:
            contexts.setdefault(step.batch.decodes, set()).add(step.batch.context)
    return [decodes for decodes, found in contexts.items() if len(found) > 1]
