from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from capsim.cost.step import StepCost
from capsim.engine import EngineConfiguration


@dataclass(frozen=True)
class Load:
    """Poisson arrivals at one replica.

    Attributes:
        rate: requests per second.
        engine: what the replica obeys.
        cost: what its steps take.
        prompt, output: mean lengths, tokens.
        ragged: lengths uniform from 1 to twice the mean, not all equal.
        seed: of arrivals and lengths.
    """

    rate: float
    engine: EngineConfiguration
    cost: StepCost
    prompt: int = 512
    output: int = 256
    ragged: bool = False
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
