from __future__ import annotations

from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from capsim.memory.kv import KvLayout

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Footprint:
    """KV blocks that one sequence holds, by how many of its tokens are computed.

    Groups of layers have block tables of their own in one pool. All that see tokens take blocks alike; those with a
    window free blocks again once the next query sees none of their tokens, here at the end of the step that leaves them
    behind (vLLM: at the beginning of the sequence's next one).

    Attributes:
        block_size: tokens in a block, the same in all groups.
        growing: groups that take a block for each `block_size` tokens.
        window: tokens that a query sees in some of these groups; 0: all see everything.
        windowed: how many of the groups have the window.
        constant: blocks of a sequence's states, whatever its length.
    """

    block_size: int
    growing: int = 1
    window: int = 0
    windowed: int = 0
    constant: int = 0

    @classmethod
    def of(cls, layout: KvLayout) -> Footprint:
        """Footprint of a model's layout.

        Raises:
            ValueError: groups with blocks of different sizes, or windows of different lengths.
        """
        growing = [group for group in layout.groups if group.kind != "state"]
        windowed = [group for group in growing if group.window is not None]
        sizes = {group.block_size for group in growing} or {layout.block_size}
        if len(sizes) > 1 or len({group.window for group in windowed}) > 1:
            raise ValueError("groups of layers differ in their blocks or windows")
        return cls(
            block_size=sizes.pop(),
            growing=len(growing),
            window=windowed[0].window or 0 if windowed else 0,
            windowed=len(windowed),
            constant=sum(group.state_blocks for group in layout.groups if group.kind == "state"),
        )

    @property
    def plain(self) -> bool:
        """Whether a sequence holds one block for each `block_size` tokens, and no others."""
        return self.growing == 1 and not self.windowed and not self.constant

    def blocks(self, tokens: int) -> int:
        """Blocks held once `tokens` tokens are computed, at least one."""
        held = self.growing * -(-tokens // self.block_size) + self.constant
        return held - self.freed(0, tokens) if self.windowed else held

    def taken(self, before: int, after: int) -> int:
        """Blocks taken to compute the tokens from `before` to `after`; the state's with the first ones."""
        taken = self.growing * (-(-after // self.block_size) + -before // self.block_size)
        return taken if before else taken + self.constant

    def freed(self, before: int, after: int) -> int:
        """Blocks freed behind the window once `after` tokens are computed, after those freed at `before`."""
        if not self.windowed:
            return 0
        edge, size = self.window - 1, self.block_size
        return self.windowed * (max(0, after - edge) // size - max(0, before - edge) // size)

    @overload
    def peak(self, tokens: int, step_tokens: int) -> int: ...
    @overload
    def peak(self, tokens: Integers, step_tokens: int) -> Integers: ...
    def peak(self, tokens: Any, step_tokens: int) -> Any:
        """Most blocks that a sequence of `tokens` tokens ever holds when a step computes at most `step_tokens`.

        In a window those of a step's tokens come on top of those that they see, and begin anywhere in a block
        (``SlidingWindowSpec.max_memory_usage_bytes`` of vLLM).

        Args:
            tokens: of one sequence, or a column of shape (n,).
            step_tokens: tokens.
        """
        size = self.block_size
        whole = -(-tokens // size)
        if not self.windowed:
            return self.growing * whole + self.constant
        seen = np.minimum(whole, -(-(self.window - 1 + step_tokens) // size) + 1)
        return (self.growing - self.windowed) * whole + self.windowed * seen + self.constant
