"""Lengths of prompts and outputs of a published run, as its source tells them."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from capsim.workload.lengths import LognormalLength
from tests.truth.public.refusal import LENGTHS, Refused
from tests.truth.public.rows import Row

Integers = NDArray[np.int64]

PROMPT_SPREAD, OUTPUT_SPREAD = 1.1, 0.9
"""Coefficients of variation of ShareGPT's prompts and answers where only means are told.

Of the first 300 prompts, and of those answers to the first 160 that are not empty, whose lengths github.com/
dstackai/benchmarks printed (comparison/h100sxm5_vs_mi300x, 16 requests/s): 1.12 and 0.90. No throughput entered.
"""
LONGEST = 1024
"""Tokens; vllm bench serve takes no longer prompt of ShareGPT."""
SHARED_CONTEXT = 9400
"""Mean prompt tokens of MLPerf's set for Llama 3.1 405B (mlcommons.org/2025/04/llm-inference-v5)."""


@dataclass(frozen=True)
class Length:
    """Lengths of one kind.

    Attributes:
        mean: tokens; of a uniform distribution the nominal length that its bounds are shares of.
        low: shortest, as a share of `mean`.
        high: longest, likewise; equal to `low`: all are alike.
        spread: coefficient of variation of a lognormal; 0: there is none.
    """

    mean: float
    low: float = 1.0
    high: float = 1.0
    spread: float = 0.0

    def draw(self, count: int, draws: np.random.Generator) -> Integers:
        """Lengths, shape (count,), each at least 1; a lognormal's are scaled to have the mean."""
        if self.spread:
            lengths = LognormalLength(max(self.mean, 1.0), self.spread, LONGEST).sample(count, draws)
            scaled = np.rint(lengths * (self.mean / lengths.mean()))
            return np.asarray(np.maximum(scaled, 1), np.int64)
        shortest, longest = (max(1, round(share * self.mean)) for share in (self.low, self.high))
        return draws.integers(shortest, longest + 1, count)

    def fixed(self) -> Length:
        """All of them as long as the mean."""
        middle = self.mean * (self.low + self.high) / 2
        return Length(middle)

    @property
    def words(self) -> str:
        """For a table."""
        if self.high > self.low:
            return f"{round(self.low * self.mean)}-{round(self.high * self.mean)}"
        return f"{self.mean:.0f}"


@dataclass(frozen=True)
class Lengths:
    """Of prompts and of outputs."""

    prompt: Length
    output: Length

    @property
    def spread(self) -> bool:
        """Whether a distribution is assumed that the source does not tell."""
        return self.prompt.spread > 0

    def fixed(self) -> Lengths:
        """All alike."""
        return Lengths(self.prompt.fixed(), self.output.fixed())

    @property
    def words(self) -> str:
        """For a table."""
        return f"{self.prompt.words}/{self.output.words}" + (" spread" if self.spread else "")


def lengths_of(row: Row) -> Lengths:
    """Lengths of a row that has no recorded ones.

    Raises:
        Refused: they are not told.
    """
    prompt, output = (_length(row[column], row) for column in ("input_len", "output_len"))
    if prompt is None and "405b" in row["dataset"]:
        prompt = Length(SHARED_CONTEXT)
    if prompt is None or output is None:
        raise Refused(LENGTHS, "of prompts" if output else "of prompts and outputs")
    if _is_sharegpt(row):
        prompt, output = replace(prompt, spread=PROMPT_SPREAD), replace(output, spread=OUTPUT_SPREAD)
    return Lengths(prompt, output)


def _is_sharegpt(row: Row) -> bool:
    """Whether these are prompts of ShareGPT; some tables of one source name the attention kernel instead."""
    return row["source_group"].startswith(("gpustack", "dstack")) and "random" not in row["dataset"]


def _length(text: str, row: Row) -> Length | None:
    found = re.match(r"~?([\d.]+)(?: \(\+-(\d+)%\)| mean|$)", text)
    if not found:
        return None
    mean = float(found[1])
    if found[2]:
        return Length(mean, 1 - int(found[2]) / 100, 1 + int(found[2]) / 100)
    if "range-ratio 0.2" in row["dataset"]:
        return Length(mean, 0.8, 1.2)
    if "random-range-ratio 0.8" in row["flags"]:
        return Length(mean, 0.8, 1.0)
    return Length(mean)
