"""The KV blocks of the plain replica, one by one: who uses them, what they hold, and which is taken next."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass

Content = tuple[Hashable, int]
"""What a full block holds: whose tokens they are (a node of the prompts' tree, or one sequence), and its place."""


@dataclass(eq=False)
class ReferenceBlock:
    """A physical block: how many sequences use it, and what it holds once it is full and known to the cache."""

    number: int
    references: int = 0
    content: Content | None = None


class ReferencePool:
    """All blocks of a replica, the free ones in the order in which they are taken, and which of them hold what."""

    def __init__(self, usable_blocks: int) -> None:
        self.blocks = [ReferenceBlock(number) for number in range(usable_blocks)]
        self.free = deque(self.blocks)
        self.cached: dict[Content, list[ReferenceBlock]] = {}
        self.evicted: list[Content] = []

    def take(self) -> ReferenceBlock:
        """The block at the front of the queue; what it held is forgotten."""
        block = self.free.popleft()
        if block.content is not None:
            self.evicted.append(block.content)
            self.forget(block)
        block.references = 1
        return block

    def share(self, block: ReferenceBlock) -> None:
        if block.references == 0:
            self.free.remove(block)
        block.references += 1

    def give_back(self, blocks: list[ReferenceBlock]) -> None:
        """A sequence lets go of its blocks, the tail first; those that nobody else uses join the end of the queue."""
        for block in reversed(blocks):
            block.references -= 1
            if block.references == 0:
                self.free.append(block)

    def enter(self, block: ReferenceBlock, content: Content) -> None:
        block.content = content
        self.cached.setdefault(content, []).append(block)

    def forget(self, block: ReferenceBlock) -> None:
        """Nothing fills the block that it was taken for."""
        if block.content is not None:
            holders = self.cached[block.content]
            holders.remove(block)
            if not holders:
                del self.cached[block.content]
            block.content = None

    def find(self, content: Content) -> ReferenceBlock | None:
        """The block that has held this content for longest."""
        holders = self.cached.get(content)
        return holders[0] if holders else None
