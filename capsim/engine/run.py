from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from capsim.engine.sequence import Sequence


class Run:
    """Consecutive KV blocks that one sequence computed, numbered by their place in it; others may hold them too.

    A prefix is kept as runs, so that its length in blocks costs nothing. Whoever holds blocks of a run holds its
    leading ones: its owner up to its own length while it runs, others as far as they found their prompt in it. What
    nobody holds is the tail, which lies in the queue of free blocks in pieces, the tail's end first.

    Attributes:
        start: number of its first block in the sequence.
        full: its blocks before this number are full and keep their content; taken blocks lower it.
        owner: the sequence that computes it, as long as that runs.
        held: others hold its blocks before this number.
        pieces: what is free of it, the part freed first (its tail) first.
        known_in: lists of runs in which it is looked for.
        marks: how far it was computed, and when: block numbers with serial numbers, both rising; kept only where
            prompts that begin alike may be computed at the same time.
    """

    __slots__ = ("_end", "_holders", "_rest", "full", "held", "known_in", "marks", "owner", "pieces", "start")

    def __init__(self, start: int, full: int, owner: Sequence | None = None) -> None:
        self.start = start
        self.full = full
        self.owner = owner
        self.held = start
        self.pieces: list[Piece] = []
        self.known_in: list[list[Run]] = []
        self.marks: list[tuple[int, int]] = []
        self._holders: dict[int, int] = {}
        self._rest: Run | None = None
        self._end = start

    @property
    def empty(self) -> bool:
        """Nothing of it is left, and nothing will come."""
        return self.full <= self.start and self.owner is None

    def computed_at(self, block: int) -> int:
        """Serial number of the mark at which a block of it that is full was computed."""
        return self.marks[bisect_right(self.marks, block, key=lambda mark: mark[0])][1]

    def free_before(self, extent: int) -> int:
        """Blocks before `extent` that nobody holds."""
        return max(0, extent - self.held) if self.owner is None else 0

    def hold(self, extent: int) -> int:
        """Hold the blocks before `extent`; returns how many of them were free."""
        found = self.free_before(extent)
        self._holders[extent] = self._holders.get(extent, 0) + 1
        self.held = max(self.held, extent)
        pieces = self.pieces
        while pieces and pieces[-1].low < extent:
            piece = pieces[-1]
            piece.low = min(extent, piece.high)
            if piece.low < piece.high:
                break
            pieces.pop()
        return found

    def drop(self, extent: int) -> Iterator[tuple[Run, int, int]]:
        """End one hold; yields what nobody holds any more: runs with their blocks from and to, the tail first."""
        if self._rest is not None and extent > self._end:
            yield from self._rest.drop(extent)
            extent = self._end
        holders = self._holders
        holders[extent] -= 1
        if holders[extent]:
            return
        del holders[extent]
        self.held = max(holders, default=self.start)
        if self.owner is None and self.held < extent:
            yield self, self.held, extent

    def split(self, block: int) -> tuple[Run, Piece | None]:
        """Cut it in two, for somebody who will hold its blocks from `block` on but not those before.

        It happens where a content is there twice, in runs that overlap. Returns the second part, and the piece that
        lies on the cut, which the queue must cut too.
        """
        rest = Run(block, max(block, self.full), self.owner)
        rest.marks = self.marks
        rest._rest, rest._end = self._rest, self._end
        self._rest, self._end = rest, block
        self.full = min(self.full, block)
        beyond = {extent: count for extent, count in self._holders.items() if extent > block}
        for extent in beyond:
            del self._holders[extent]
        if beyond:
            self._holders[block] = self._holders.get(block, 0) + sum(beyond.values())
        rest._holders = beyond
        if self.owner is not None:
            self._hand_over(self.owner, block)
        self.held = max(self._holders, default=self.start)
        rest.held = max(rest._holders, default=block)
        rest.pieces = [piece for piece in self.pieces if piece.low >= block]
        for piece in rest.pieces:
            piece.run = rest
        self.pieces = [piece for piece in self.pieces if piece.low < block]
        for runs in self.known_in:
            runs.insert(runs.index(self) + 1, rest)
        rest.known_in = list(self.known_in)
        cut = next((piece for piece in self.pieces if piece.high > block), None)
        return rest, cut

    def _hand_over(self, owner: Sequence, block: int) -> None:
        """Its owner holds the first part like anybody else, and owns the second."""
        self._holders[block] = self._holders.get(block, 0) + 1
        owner.holds = [*owner.holds, (self, block)]
        owner.first = block
        owner.run = self._rest
        self.owner = None


class Piece:
    """Blocks that were freed together, in the queue of free ones; the one with the highest number is taken first.

    Attributes:
        run: whose blocks they are; None where nobody will ask for their content.
        low, high: they are the blocks from `low` to before `high`.
    """

    __slots__ = ("high", "low", "run")

    def __init__(self, run: Run | None, low: int, high: int) -> None:
        self.run = run
        self.low = low
        self.high = high
