"""Prefixes that synthetic requests begin with, such as the system prompts of several applications."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from capsim.errors import BadInput
from capsim.workload.lengths import LengthDistribution
from capsim.workload.prefixes import Integers, Prefixes


@dataclass(frozen=True)
class SharedPrefixes:
    """`count` prefixes of equal length, each as likely, that a share of the requests begins with.

    A prompt shorter than a prefix cannot hold it and shares nothing.

    Attributes:
        tokens: length of each prefix, part of the prompt's length.
        count: different prefixes.
        share: of the requests, before those too short for a prefix are taken out; above 0, at most 1.
    """

    tokens: int
    count: int = 8
    share: float = 1.0

    def __post_init__(self) -> None:
        if self.tokens < 1 or self.count < 1 or not 0 < self.share <= 1:
            raise BadInput(
                f"shared prefixes need at least 1 token and 1 prefix, and a share above 0 and at most 1, "
                f"found {self.tokens}, {self.count} and {self.share:g}"
            )

    def sample(self, prompt: Integers, rng: np.random.Generator) -> Prefixes:
        """Choose for each prompt whether it begins with a prefix, and with which; one random number each.

        Args:
            prompt: tokens, shape (n,), int64.
            rng: stream of the choices.
        """
        choice = rng.random(len(prompt)) / self.share
        begins = (choice < 1) & (prompt >= self.tokens)
        # The minimum keeps a choice that rounding put on the very end.
        nodes = np.minimum((choice[begins] * self.count).astype(np.int64), self.count - 1)
        starts = np.concatenate([[0], np.cumsum(begins)]).astype(np.int64)
        return Prefixes(starts, nodes, np.full(len(nodes), self.tokens, dtype=np.int64))

    def expected_reuse(self, prompt: LengthDistribution) -> float:
        """Expected share of the prompt tokens that lie in a shared prefix, the first use of each too."""
        return self.share * prompt.at_least(self.tokens) * self.tokens / prompt.expected
