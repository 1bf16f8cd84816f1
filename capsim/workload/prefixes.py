from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Prefixes:
    """Which leading tokens the prompts share: each prompt is a path from the root of a tree of contents.

    Attributes:
        starts: shape (n + 1,), int64; request i's path is entries starts[i]:starts[i + 1].
        nodes: shape (m,), int64, not negative: numbers of nodes. A node stands for its tokens and all before
            it, and has one parent, so that prompts with a node in common are equal up to its end.
        ends: shape (m,), int64: tokens from the start of the prompt to the node's end, increasing along a
            path; the last is at most the prompt's length.
    """

    starts: Integers
    nodes: Integers
    ends: Integers

    @classmethod
    def of_hashes(cls, hashes: Sequence[Sequence[int]], prompt: Integers, block: int) -> Prefixes:
        """One node a hash id, where the k-th id of a prompt stands for its k-th `block` of tokens.

        Ids are chained here: an id after other ids, or of a block of another size, is another node, so that a
        file need not have done it.

        Args:
            hashes: ids of each prompt, at most as many as it has blocks, the last of which may be partial.
            prompt: prompt tokens, shape (n,), int64.
            block: tokens of one id.
        """
        numbers: dict[tuple[int, int, int], int] = {}
        nodes: list[int] = []
        ends: list[int] = []
        for ids, tokens in zip(hashes, prompt.tolist(), strict=True):
            node, end = -1, 0
            for each in ids:
                begin, end = end, min(end + block, tokens)
                node = numbers.setdefault((node, each, end - begin), len(numbers))
                nodes.append(node)
                ends.append(end)
        starts = np.concatenate([[0], np.cumsum([len(ids) for ids in hashes])])
        return cls(*(np.array(column, dtype=np.int64) for column in (starts, nodes, ends)))

    def __len__(self) -> int:
        return len(self.starts) - 1

    def path(self, row: int) -> tuple[tuple[int, int], ...]:
        """Nodes of one request's path, root first, each with its end."""
        entries = slice(int(self.starts[row]), int(self.starts[row + 1]))
        return tuple(zip(self.nodes[entries].tolist(), self.ends[entries].tolist(), strict=True))

    def shared_tokens(self) -> Integers:
        """Leading tokens of each prompt that others may have too, shape (n,)."""
        shared = np.zeros(len(self), dtype=np.int64)
        some = np.diff(self.starts) > 0
        shared[some] = self.ends[self.starts[1:][some] - 1]
        return shared

    def compressed(self) -> Prefixes:
        """The same sharing in the fewest nodes.

        Nodes that the same prompts pass become one, and what only one prompt passes is left out.
        """
        passed = np.bincount(self.nodes)[self.nodes] if len(self.nodes) else self.nodes
        # How many prompts pass the next node of the path; none do after its last.
        following = np.append(passed[1:], 0)
        last = self.starts[1:][np.diff(self.starts) > 0] - 1
        following[last] = 0
        kept = (passed > 1) & (following < passed)
        starts = np.concatenate([[0], np.cumsum(kept)])[self.starts]
        nodes = np.unique(self.nodes[kept], return_inverse=True)[1]
        return Prefixes(starts.astype(np.int64), nodes.astype(np.int64), self.ends[kept])

    def take(self, rows: Integers, copies: Integers | None = None) -> Prefixes:
        """Paths of these rows, in this order.

        Args:
            rows: shape (n,), int64.
            copies: shape (n,), int64, not negative: which copy of the tree each row belongs to; copies share
                nothing. None: one copy.
        """
        lengths = np.diff(self.starts)[rows]
        starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        entries = np.arange(starts[-1]) + np.repeat(self.starts[rows] - starts[:-1], lengths)
        nodes = self.nodes[entries]
        if copies is not None and len(self.nodes):
            nodes = nodes + np.repeat(copies, lengths) * (int(self.nodes.max()) + 1)
        return Prefixes(starts, nodes, self.ends[entries])
