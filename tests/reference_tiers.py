"""The tiers behind the plain replica's KV blocks: which blocks of which content each one holds, one by one."""

from __future__ import annotations

from collections.abc import Hashable

from tests.reference_pool import Content


class ReferenceTier:
    """One tier; `contents` has the places of the blocks of each content, the least recently used content first."""

    def __init__(self, blocks: int, seconds_per_block: float, latency: float) -> None:
        self.blocks = blocks
        self.seconds_per_block = seconds_per_block
        self.latency = latency
        self.contents: dict[Hashable, set[int]] = {}
        self.busy_until = 0.0

    def holds(self, content: Content) -> bool:
        whose, place = content
        return place in self.contents.get(whose, ())

    def write(self, content: Content) -> None:
        """Hold one more block of a content, all of which was thereby used last.

        A tier holds one stretch of a content: blocks between the new one and those that are here come along.
        """
        whose, place = content
        places = self.contents.pop(whose, set()) | {place}
        self.contents[whose] = set(range(min(places), max(places) + 1))

    def overflow(self) -> list[Content]:
        """What it has no room for: of the content used least recently the last block, again and again."""
        gone: list[Content] = []
        while sum(len(places) for places in self.contents.values()) > self.blocks:
            whose, places = next(iter(self.contents.items()))
            gone.append((whose, max(places)))
            places.remove(max(places))
            if not places:
                del self.contents[whose]
        return gone

    def read(self, blocks: int, now: float) -> float:
        """Read blocks after all that was asked for before; when they are there."""
        self.busy_until = max(now, self.busy_until) + self.latency + blocks * self.seconds_per_block
        return self.busy_until


def write_through(tiers: list[ReferenceTier], contents: list[Content]) -> None:
    """Write to the first tier, in this order; each tier hands what it has no room for to the next one."""
    for tier in tiers:
        for content in contents:
            tier.write(content)
        contents = tier.overflow()
