"""Tiers behind the GPU's memory to which KV is offloaded: host memory, and whatever lies behind it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from capsim.engine.sequence import Sequence


@dataclass(frozen=True)
class Tier:
    """One tier of KV offload.

    Attributes:
        name: what to call it.
        blocks: KV blocks that it holds.
        seconds_per_block: to read one into the GPU's memory, conversion of its format included.
        latency: seconds until the first block of a read arrives.
    """

    name: str
    blocks: int
    seconds_per_block: float
    latency: float = 0.0


class Extent(NamedTuple):
    """Consecutive blocks of one content, from `low` to before `high`, numbered by their place in a sequence."""

    low: int
    high: int


class OffloadTier:
    """What one tier holds, and what it did.

    Least recently used content leaves first, its tail first, so that what is left of a prompt is always its beginning.

    Attributes:
        tier: its size and speed.
        stored, loaded, evicted: blocks written, read, and driven out.
        hit_tokens: tokens found here.
        loading_time: seconds that reads took, waiting for earlier reads included, summed.
        busy_until: when the last read that was asked for ends, seconds.
    """

    def __init__(self, tier: Tier) -> None:
        self.tier = tier
        self.stored = self.loaded = self.evicted = self.hit_tokens = 0
        self.loading_time = self.busy_until = 0.0
        self.clear()

    def clear(self) -> None:
        """Forget all content."""
        self._extents: OrderedDict[Hashable, Extent] = OrderedDict()
        self._used = 0

    def reach(self, content: Hashable, position: int) -> int:
        """How far this content is here from block `position` on; `position` itself if that block is not."""
        extent = self._extents.get(content)
        return extent.high if extent is not None and extent.low <= position < extent.high else position

    def store(self, content: Hashable, blocks: Extent) -> None:
        """Hold blocks that join those of the content that are here, and take it for the one used last."""
        known = self._extents.pop(content, blocks)
        joined = Extent(min(known.low, blocks.low), max(known.high, blocks.high))
        self._extents[content] = joined
        added = joined.high - joined.low - (0 if known is blocks else known.high - known.low)
        self.stored += added
        self._used += added

    def overflow(self) -> Iterator[tuple[Hashable, Extent]]:
        """Drive out what there is no room for; yields it."""
        while self._used > self.tier.blocks:
            content, extent = next(iter(self._extents.items()))
            out = min(self._used - self.tier.blocks, extent.high - extent.low)
            border = extent.high - out
            if border > extent.low:
                self._extents[content] = Extent(extent.low, border)
            else:
                del self._extents[content]
            self._used -= out
            self.evicted += out
            yield content, Extent(border, extent.high)

    def read(self, blocks: int, now: float) -> float:
        """Read blocks, one read after the other; returns when they are there."""
        self.loaded += blocks
        self.busy_until = max(now, self.busy_until) + self.tier.latency + blocks * self.tier.seconds_per_block
        self.loading_time += self.busy_until - now
        return self.busy_until


class Offload:
    """The tiers of a replica, the nearest first.

    What a sequence leaves behind when it ends or is preempted is written to the first tier; what is driven out of a
    tier goes to the next one. Writing costs the engine no time; reading delays the sequence that asked. As vLLM's
    ``OffloadingConnector``, but for a write when the sequence leaves the batch instead of with every block.

    Args:
        tiers: the nearest first.
        block_size: tokens in a block.
    """

    def __init__(self, tiers: tuple[Tier, ...], block_size: int) -> None:
        self.tiers = [OffloadTier(tier) for tier in tiers]
        self._block_size = block_size

    def clear(self) -> None:
        """Forget all content, as when the engine starts."""
        for tier in self.tiers:
            tier.clear()

    def store(self, sequence: Sequence, blocks: int) -> None:
        """Write the leading `blocks` full blocks of a sequence, the beginning last, so that it stays longest."""
        contents = [
            (content, Extent(low, min(high, blocks))) for content, low, high in self._contents(sequence)
        ]
        for content, extent in reversed(contents):
            if extent.high > extent.low:
                self.tiers[0].store(content, extent)
        for tier, behind in zip(self.tiers, [*self.tiers[1:], None], strict=True):
            for content, extent in tier.overflow():
                if behind is not None:
                    behind.store(content, extent)

    def find(self, sequence: Sequence, position: int) -> list[tuple[OffloadTier, int]]:
        """Blocks from `position` on that are in tiers, tier by tier; at least the last token is left to compute."""
        most = (sequence.target - 1) // self._block_size
        found: dict[OffloadTier, int] = {}
        for content, _, high in self._contents(sequence):
            end = min(high, most)
            while position < end:
                reached = position
                for tier in self.tiers:
                    reached = min(tier.reach(content, position), end)
                    if reached > position:
                        found[tier] = found.get(tier, 0) + reached - position
                        break
                if reached == position:
                    return list(found.items())
                position = reached
        return list(found.items())

    def load(self, parts: list[tuple[OffloadTier, int]], now: float) -> float:
        """Read what `find` found; returns when all of it is there."""
        ready = now
        for tier, blocks in parts:
            tier.hit_tokens += blocks * self._block_size
            ready = max(ready, tier.read(blocks, now))
        return ready

    def _contents(self, sequence: Sequence) -> Iterator[tuple[Hashable, int, int]]:
        """Contents of a sequence from its beginning on, each with its blocks; the last one is its own."""
        low = 0
        for node, end in sequence.path:
            high = end // self._block_size
            if high > low:
                yield node, low, high
                low = high
        yield sequence, low, 1 << 60
