"""How much of the prompts a prefix cache finds: what requests offer, before any engine serves them."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from capsim.workload.prefixes import Integers, Prefixes


@dataclass(frozen=True)
class Reuse:
    """What a cache finds of the prompts of requests that come one after another.

    Attributes:
        blocks: of all prompts.
        unique: different ones.
        hits: found in the cache.
        tokens: of all prompts, those outside whole blocks too.
        hit_tokens: in the blocks found.
    """

    blocks: int
    unique: int
    hits: int
    tokens: int
    hit_tokens: int

    @property
    def block_share(self) -> float:
        """Share of the blocks that are found; 0 where there are none."""
        return self.hits / self.blocks if self.blocks else 0.0

    @property
    def token_share(self) -> float:
        """Share of the prompt tokens that are found; 0 where there are none."""
        return self.hit_tokens / self.tokens if self.tokens else 0.0


@dataclass(frozen=True, eq=False)
class PromptBlocks:
    """Prompts cut into blocks, as a cache of blocks sees them.

    Attributes:
        prompt: tokens, shape (n,), int64.
        starts: shape (n + 1,), int64; prompt i has the blocks starts[i]:starts[i + 1].
        numbers: shape (m,), int64; blocks with the same number are the same, and so is all before them.
        tokens: tokens of each block, shape (m,), int64.
    """

    prompt: Integers
    starts: Integers
    numbers: Integers
    tokens: Integers

    @classmethod
    def cut(cls, prefixes: Prefixes, prompt: Integers, size: int, *, partial: bool = False) -> PromptBlocks:
        """Cut prompts into blocks of `size` tokens.

        A block is the same as another where both lie inside the same node at the same place.

        Args:
            prefixes: of the prompts.
            prompt: tokens, shape (n,), int64.
            size: tokens of a block.
            partial: whether what is left at a prompt's end is a block too; engines cache whole blocks only.
        """
        counts = -(-prompt // size) if partial else prompt // size
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        place = np.arange(starts[-1]) - np.repeat(starts[:-1], counts)
        ends = np.minimum((place + 1) * size, np.repeat(prompt, counts))
        # The first node of the prompt's path that reaches the block's end, if there is one. Ends that are
        # shifted by their prompt's row increase along all paths.
        row = np.repeat(np.arange(len(prompt)), counts)
        reach = int(prompt.max(initial=0)) + 1
        node_rows = np.repeat(np.arange(len(prompt)), np.diff(prefixes.starts))
        entry = np.searchsorted(node_rows * reach + prefixes.ends, row * reach + ends)
        shared = entry < prefixes.starts[row + 1]
        # Blocks of nobody else get numbers of their own after those of the nodes' blocks.
        longest = int(counts.max(initial=0)) + 1
        inside = prefixes.nodes[entry[shared]] * longest + place[shared]
        numbers = np.empty(len(place), dtype=np.int64)
        different, numbers[shared] = np.unique(inside, return_inverse=True)
        numbers[~shared] = len(different) + np.arange(np.count_nonzero(~shared))
        return cls(prompt, starts, numbers, ends - place * size)

    def found_ever(self) -> Reuse:
        """Reuse with a cache that forgets nothing."""
        first = np.zeros(len(self.numbers), dtype=bool)
        first[np.unique(self.numbers, return_index=True)[1]] = True
        return self._reuse(~first)

    def found_by_lru(self, capacity: int) -> Reuse:
        """Reuse with a cache of `capacity` blocks that forgets those not touched for longest.

        A prompt finds its longest leading run of blocks that are held. Then all its blocks are held and
        touched, last to first, so that the head of a prefix is forgotten last.
        """
        held: OrderedDict[int, None] = OrderedDict()
        found = np.zeros(len(self.numbers), dtype=bool)
        numbers, starts = self.numbers.tolist(), self.starts.tolist()
        for start, end in pairwise(starts):
            blocks = numbers[start:end]
            hits = next((place for place, block in enumerate(blocks) if block not in held), len(blocks))
            found[start : start + hits] = True
            for block in reversed(blocks):
                held[block] = None
                held.move_to_end(block)
            while len(held) > capacity:
                held.popitem(last=False)
        return self._reuse(found)

    def _reuse(self, found: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Reuse:
        return Reuse(
            blocks=len(self.numbers),
            unique=len(np.unique(self.numbers)),
            hits=int(np.count_nonzero(found)),
            tokens=int(self.prompt.sum()),
            hit_tokens=int(self.tokens[found].sum()),
        )
