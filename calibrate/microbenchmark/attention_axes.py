from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from calibrate.microbenchmark.axes import SMALLEST_CONTEXT, SMALLEST_PAST, Density, doubling
from calibrate.microbenchmark.case import Batch
from calibrate.microbenchmark.limits import Limits

RATIOS = (1.5, 2.5, 4.0)
"""Longest over mean context of the batches with unequal lengths."""
SHORT = 0.5
"""Of the mean: the context of the others in such a batch."""


@dataclass(frozen=True)
class AttentionAxes:
    """Counts of the attention tables: those of chunks and contexts are 1 less than powers of two.

    Lengths of prompts and contexts, and what a budget leaves to a chunk beside decodes, are multiples of nothing, and
    kernels may be slower there: a table of aligned lengths would be too fast for nearly every step.

    Attributes:
        longest: sequence, tokens.
        new, past: of a chunk alone.
        decodes, context: of decodes alone.
        mixed: the same four of both together.
        skewed: decodes and mean contexts of batches with unequal lengths.
    """

    longest: int
    new: tuple[int, ...]
    past: tuple[int, ...]
    decodes: tuple[int, ...]
    context: tuple[int, ...]
    mixed: tuple[tuple[int, ...], ...]
    skewed: tuple[tuple[int, ...], tuple[int, ...]]

    @classmethod
    def of(cls, limits: Limits, density: Density) -> AttentionAxes:
        """From the limits."""
        most, longest, ratio = limits.max_num_batched_tokens, limits.max_model_len, density.ratio
        past = (0, *doubling(min(SMALLEST_PAST, longest // 2), longest // 2, density.past_ratio))
        few = 2.0 * density.past_ratio
        mixed = (
            _unaligned(doubling(min(64, most // 2), most // 2, few)),
            (0, past[len(past) // 2] if len(past) > 2 else past[-1]),
            doubling(min(4, limits.max_num_seqs // 2 or 1), limits.max_num_seqs, few),
            _unaligned(doubling(min(256, longest // 4), longest // 2, few)),
        )
        skewed = (
            doubling(min(8, limits.max_num_seqs // 2 or 1), limits.max_num_seqs, few),
            doubling(min(256, longest // 8), longest // 4, few),
        )
        return cls(
            longest,
            (1, *_unaligned(doubling(16, min(most, longest), density.new_ratio))),
            past,
            doubling(1, limits.max_num_seqs, ratio),
            _unaligned(doubling(SMALLEST_CONTEXT, longest, ratio)),
            mixed,
            skewed,
        )

    def batches(self) -> dict[str, list[Batch]]:
        """Every batch of each table; chunks that no sequence is long enough for are left out."""
        prefill = [
            Batch.equal(new, past, 0, 0)
            for new, past in product(self.new, self.past)
            if new + past <= self.longest
        ]
        decode = [
            Batch.equal(0, 0, decodes, context) for decodes, context in product(self.decodes, self.context)
        ]
        mixed = [Batch.equal(*shape) for shape in product(*self.mixed)]
        return {"prefill": prefill, "decode": decode, "mixed": mixed, "skew": list(self._skewed())}

    def _skewed(self) -> Iterator[Batch]:
        for decodes, mean, ratio in product(*self.skewed, RATIOS):
            batch = uneven(decodes, mean, ratio)
            if max(batch.contexts) <= self.longest and len(set(batch.contexts)) > 1:
                yield batch


def _unaligned(counts: tuple[int, ...]) -> tuple[int, ...]:
    """One less each, but for the last, where the range ends."""
    return (*(count - 1 for count in counts[:-1]), counts[-1])


def uneven(decodes: int, mean: int, ratio: float) -> Batch:
    """Decodes of which a few are `ratio` times the mean long, and the others short, so that the mean stays."""
    longest = round(ratio * mean)
    many = max(1, round(decodes * (1 - SHORT) / (ratio - SHORT)))
    rest = decodes - many
    short = max(1, round((decodes * mean - many * longest) / rest)) if rest else longest
    return Batch(contexts=(longest,) * many + (short,) * rest)
