"""A stated step cost, linear in what the batch holds."""

from __future__ import annotations

import math
from collections.abc import Mapping

from capsim.cost.shape import BatchShape
from capsim.cost.step import UNBOUNDED, Factor, Line, StepCost
from capsim.errors import BadInput, Fault


class LinearCost(StepCost):
    """Seconds of a step as a weighted sum of what is in its batch; all weights are seconds.

    Exact in binary arithmetic when the weights are dyadic fractions, which differential tests rely on.

    Args:
        base: of every step.
        per_prefill_token: of each token that a chunk computes.
        per_chunk: of each chunk.
        per_query_key_pair: of each pair of a chunk's causal attention, ``new * past + new * (new + 1) / 2``.
        per_decode: of each sequence that decodes.
        per_context_token: of each token of context that the decodes read.

    Raises:
        BadInput: a weight is negative or not finite, or all of them are 0.
    """

    source = "stated"

    def __init__(
        self,
        base: float = 0.0,
        per_prefill_token: float = 0.0,
        per_chunk: float = 0.0,
        per_query_key_pair: float = 0.0,
        per_decode: float = 0.0,
        per_context_token: float = 0.0,
    ) -> None:
        self.base = float(base)
        self.per_prefill_token = float(per_prefill_token)
        self.per_chunk = float(per_chunk)
        self.per_query_key_pair = float(per_query_key_pair)
        self.per_decode = float(per_decode)
        self.per_context_token = float(per_context_token)
        weights = self._weights()
        faults = [
            Fault("step cost", f"{seconds} seconds", key=name, expected="a number that is not negative")
            for name, seconds in weights.items()
            if not 0 <= seconds < math.inf
        ]
        if faults:
            raise BadInput(*faults)
        if not any(weights.values()):
            raise BadInput("step cost: all weights of a linear cost are 0, expected at least one above 0")
        stated = ", ".join(f"{name} {seconds:g} s" for name, seconds in weights.items() if seconds)
        self.description = f"a stated linear cost: {stated}"

    def step(self, batch: BatchShape) -> float:
        """Seconds of one step with this batch."""
        chunks, decodes, context, *_ = batch
        seconds = self.base + self.per_decode * decodes + self.per_context_token * context
        for new, past in chunks:
            pairs = new * past + new * (new + 1) / 2
            seconds += self.per_chunk + self.per_prefill_token * new + self.per_query_key_pair * pairs
        return seconds

    def line(self, batch: BatchShape) -> Line:
        """One line without end: each step reads one more token a sequence."""
        first = self.base + self.per_decode * batch.decodes + self.per_context_token * batch.context
        return Line(first, self.per_context_token * batch.decodes, UNBOUNDED)

    def describe(self) -> Mapping[str, Factor]:
        """The weights."""
        return {name: Factor(seconds, "stated", "the scenario") for name, seconds in self._weights().items()}

    def _weights(self) -> dict[str, float]:
        return {
            "base": self.base,
            "per_prefill_token": self.per_prefill_token,
            "per_chunk": self.per_chunk,
            "per_query_key_pair": self.per_query_key_pair,
            "per_decode": self.per_decode,
            "per_context_token": self.per_context_token,
        }
