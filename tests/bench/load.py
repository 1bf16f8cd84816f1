from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from capsim.cost.step import StepCost
from capsim.engine import EngineConfiguration
from capsim.engine.sequence import NO_PATH, Path


@dataclass(frozen=True)
class Load:
    """Poisson arrivals at one replica.

    Attributes:
        rate: requests per second.
        engine: what the replica obeys.
        cost: what its steps take.
        prompt, output: mean lengths, tokens.
        ragged: lengths uniform from 1 to twice the mean, not all equal.
        prefixes: so many prompts to begin with, each as likely; 0: nothing is shared.
        turns: of the prompt's parts that others may share, as in a conversation; they cover 15 of 16 tokens.
        seed: of arrivals and lengths.
    """

    rate: float
    engine: EngineConfiguration
    cost: StepCost
    prompt: int = 512
    output: int = 256
    ragged: bool = False
    prefixes: int = 0
    turns: int = 1
    seed: int = 1

    def rows(self, count: int) -> Iterator[tuple[float, int, int]]:
        """Arrival in seconds, prompt and output in tokens of `count` requests."""
        random = np.random.default_rng(self.seed)
        arrival = random.exponential(1 / self.rate, count).cumsum()
        prompt, output = np.full(count, self.prompt), np.full(count, self.output)
        if self.ragged:
            prompt = random.integers(1, 2 * self.prompt, count)
            output = random.integers(1, 2 * self.output, count)
        return zip(arrival.tolist(), prompt.tolist(), output.tolist(), strict=True)

    def paths(self, count: int) -> list[Path]:
        """Shared beginning of each of `count` requests."""
        if not self.prefixes:
            return [NO_PATH] * count
        choice = np.random.default_rng(self.seed + 1).integers(0, self.prefixes, count).tolist()
        ends = [self.prompt * 15 // 16 * (turn + 1) // self.turns for turn in range(self.turns)]
        return [
            tuple((prefix * self.turns + turn, end) for turn, end in enumerate(ends)) for prefix in choice
        ]
