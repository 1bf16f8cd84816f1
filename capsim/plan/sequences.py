from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from capsim.memory.kv import KvLayout

Lengths = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Sequences:
    """What a demand puts into the KV cache of a replica.

    A sequence holds its prompt when it begins to decode and all but its last output token when it ends: that one is
    never fed back. Its final length is prompt + output - 1 tokens.

    Attributes:
        prompt, output: lengths of requests that are not rejected, tokens, shape (n,).
        running: how many of them run at once.
        sampling: parameters of the requests, such as ``n``, by their names in vLLM.
        prefix_reuse: share of the prompt tokens that a cache which forgets nothing finds.
        prefix_caching: the engine looks for them.
    """

    prompt: Lengths
    output: Lengths
    running: int
    sampling: Mapping[str, object] = field(default_factory=dict)
    prefix_reuse: float = 0.0
    prefix_caching: bool = False

    @cached_property
    def final(self) -> Lengths:
        """Final length of each, tokens."""
        final: Lengths = self.prompt + self.output - 1
        return final

    @property
    def live_tokens(self) -> float:
        """Tokens that a running sequence holds on average over its decode.

        Sequences are seen as often as they are long, and grow by a token a step: E[output * (prompt + output / 2)] /
        E[output]. Prompts being computed hold less, and are short beside the decode.
        """
        return float((self.output * (self.prompt + self.output / 2)).sum() / self.output.sum())

    @property
    def ending_tokens(self) -> float:
        """Final length of a running sequence, seen as often as it is long."""
        return float((self.output * self.final).sum() / self.output.sum())

    def stated(self, *names: str) -> int:
        """The largest whole number among these sampling parameters; 1 without any."""
        values = (self.sampling.get(name) for name in names)
        return max((value for value in values if isinstance(value, int)), default=1)


def mean_blocks(layout: KvLayout, tokens: Lengths, weights: Lengths | None = None) -> float:
    """Blocks of sequences of these lengths on average; each length is looked up once."""
    lengths, places = np.unique(tokens, return_inverse=True)
    times = np.bincount(places, weights)
    return float(np.average([layout.blocks(int(length)) for length in lengths], weights=times))
