from __future__ import annotations

from collections import deque

from capsim.engine.run import Piece, Run


class FreeQueue:
    """The free KV blocks in the order in which they will be taken, with what is still in them.

    vLLM appends freed blocks, the tail of a sequence first, and takes from the front; a block keeps its content until
    it is taken. Blocks are counted by piece and never touched one by one.

    Attributes:
        evicted: blocks taken while somebody could still have asked for their content.

    Args:
        blocks: all of them, free and empty.
    """

    __slots__ = ("_ahead", "_blocks", "_pieces", "evicted")

    def __init__(self, blocks: int) -> None:
        self._blocks = blocks
        self.evicted = 0
        self.reset()

    def reset(self) -> None:
        """All blocks are free and empty, as when the engine starts."""
        self._pieces: deque[Piece] = deque([Piece(None, 0, self._blocks)])
        self._ahead = 0

    def take(self, blocks: int) -> None:
        """Take blocks from the front; what was in them is gone. Those taken ahead count towards it."""
        if self._ahead:
            ahead = min(self._ahead, blocks)
            self._ahead -= ahead
            blocks -= ahead
        if blocks:
            self._take(blocks)

    def take_ahead(self, blocks: int) -> None:
        """Take blocks that the running step needs before anybody looks for cached ones; `take` will ask for them."""
        if blocks > self._ahead:
            self._take(blocks - self._ahead)
            self._ahead = blocks

    def free(self, blocks: int) -> None:
        """Append blocks whose content nobody will ask for."""
        last = self._pieces[-1] if self._pieces else None
        if last is not None and last.run is None:
            last.high += blocks
        else:
            self._pieces.append(Piece(None, 0, blocks))

    def keep(self, run: Run, low: int, high: int) -> None:
        """Append the blocks of a run from `low` to before `high`; those that are full keep their content."""
        piece = Piece(run, low, high)
        run.pieces.append(piece)
        self._pieces.append(piece)

    def cut(self, piece: Piece, rest: Run) -> None:
        """Cut a piece in two where a run was: what belongs to `rest` lies before the other part, and is taken first."""
        upper = Piece(rest, rest.start, piece.high)
        piece.high = rest.start
        rest.pieces.append(upper)
        self._pieces.insert(self._pieces.index(piece), upper)

    def _take(self, blocks: int) -> None:
        pieces = self._pieces
        while blocks > 0:
            piece = pieces[0]
            there = piece.high - piece.low
            if there > blocks and piece.run is None:
                piece.high -= blocks
                return
            taken = min(there, blocks)
            blocks -= taken
            piece.high -= taken
            run = piece.run
            if run is not None and taken and run.full > piece.high:
                self.evicted += run.full - piece.high
                run.full = piece.high
            if taken == there:
                pieces.popleft()
                if run is not None and there:
                    run.pieces.pop(
                        0
                    )  # the oldest piece of a run that is not empty lies in front of its others
