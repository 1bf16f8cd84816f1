from __future__ import annotations


class Run:
    """Consecutive KV blocks that one sequence computed, numbered by their place in it; others may hold them too.

    A prefix is kept as runs, so that its length in blocks costs nothing. Whoever holds blocks of a run holds its
    leading ones: its owner up to its own length while it runs, others as far as they found their prompt in it. What
    nobody holds is the tail, which lies in the queue of free blocks in pieces, the tail's end first.

    Attributes:
        start: number of its first block in the sequence.
        full: its blocks before this number are full and keep their content; taken blocks lower it.
        owned: whether the sequence that computes it still runs.
        held: others hold its blocks before this number.
        pieces: what is free of it, the part freed first (its tail) first.
    """

    __slots__ = ("_holders", "full", "held", "owned", "pieces", "start")

    def __init__(self, start: int, full: int, *, owned: bool) -> None:
        self.start = start
        self.full = full
        self.owned = owned
        self.held = start
        self.pieces: list[Piece] = []
        self._holders: dict[int, int] = {}

    def free_before(self, extent: int) -> int:
        """Blocks before `extent` that nobody holds."""
        return 0 if self.owned else max(0, extent - self.held)

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

    def drop(self, extent: int) -> int:
        """End one hold; returns the number of the first block that is no longer held, `extent` if all still are."""
        holders = self._holders
        holders[extent] -= 1
        if holders[extent]:
            return extent
        del holders[extent]
        self.held = max(holders, default=self.start)
        return extent if self.owned else min(extent, self.held)


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
