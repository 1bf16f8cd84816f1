from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from capsim.cost.shape import Chunk
from capsim.cost.step import UNBOUNDED, Line


@dataclass(frozen=True)
class AttentionTime:
    """Seconds of the attention kernels of all layers that see equally much: one kernel a layer for the whole batch.

    Attributes:
        per_context: for one token of KV that is read.
        per_pair: for one pair of query and key in prefill.
        floor: least seconds of the kernels.
        window: tokens that a query sees; 0: all before it.
        knee: longest total context, tokens, whose reading takes no longer than the floor.
    """

    per_context: float
    per_pair: float
    floor: float
    window: int = 0
    knee: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "knee", _last_flat_context(self.floor, self.per_context))

    def seconds(self, chunks: Iterable[Chunk], context: int) -> float:
        """Seconds in one step.

        Args:
            chunks: each takes the longer of its arithmetic and its reading.
            context: tokens that the decodes see, summed.
        """
        attention = self.per_context * context
        for new, past in chunks:
            if self.window:
                pairs, read = _windowed(new, past, self.window)
            else:
                pairs, read = new * (past + 0.5 * (new + 1)), past + new
            arithmetic, reading = self.per_pair * pairs, self.per_context * read
            attention += arithmetic if arithmetic > reading else reading
        return attention if attention > self.floor else self.floor

    def line(self, context: int, growth: int) -> Line:
        """Seconds in consecutive steps of decodes that see `growth` more tokens in each one."""
        if context > self.knee:
            return Line(self.per_context * context, self.per_context * growth, UNBOUNDED)
        return Line(self.floor, 0.0, (self.knee - context) // growth + 1 if growth else UNBOUNDED)


def _windowed(new: int, past: int, window: int) -> tuple[float, int]:
    """Pairs of query and key of a chunk, each query seeing at most `window` tokens, and tokens of KV read."""
    growing = min(max(0, window - past), new)  # queries that still see everything
    pairs = growing * (past + 0.5 * (growing + 1)) + (new - growing) * window
    return pairs, min(past, window - 1) + new


def _last_flat_context(floor: float, per_context: float) -> int:
    """Longest total context, tokens, whose reading takes no longer than the attention's latency."""
    if per_context == 0:  # no such layers
        return UNBOUNDED
    context = int(floor / per_context)
    while per_context * (context + 1) <= floor:
        context += 1
    while per_context * context > floor:
        context -= 1
    return context
