from __future__ import annotations

from collections import deque


class Run:
    """Blocks that were freed together, in the queue of free blocks; the last of a sequence is taken first.

    Attributes:
        blocks: how many of them are left: the leading ones of the sequence.
        cached: how many of its leading blocks were full, and so keep their content until they are taken.
    """

    __slots__ = ("blocks", "cached")

    def __init__(self, blocks: int, cached: int) -> None:
        self.blocks = blocks
        self.cached = cached

    def claim(self, blocks: int) -> None:
        """Take the leading blocks out of the queue; the others will be computed anew elsewhere."""
        self.blocks -= blocks
        self.cached = 0


class FreeQueue:
    """The free KV blocks in the order in which they will be taken, with what is still in them.

    vLLM appends freed blocks, the tail of a sequence first, and takes from the front; a block keeps its content until
    it is taken. A preempted sequence that comes back finds its leading blocks as far as nobody took them. Only
    preempted sequences own a run here: the demand records no prefixes that requests share, so nobody will look for the
    content of a finished one. Blocks are counted by run and never touched one by one.

    Args:
        blocks: all of them, free and empty.
    """

    def __init__(self, blocks: int) -> None:
        self._blocks = blocks
        self.reset()

    def reset(self) -> None:
        """All blocks are free and empty, as when the engine starts."""
        self._runs: deque[Run] = deque([Run(self._blocks, 0)])
        self._ahead = 0

    def take(self, blocks: int) -> None:
        """Take blocks from the front; what was in them is gone. Those taken ahead count towards it."""
        ahead = min(self._ahead, blocks)
        self._ahead -= ahead
        self._take(blocks - ahead)

    def take_ahead(self, blocks: int) -> None:
        """Take blocks that the running step needs before anybody looks for cached ones; `take` will ask for them."""
        self._take(blocks - self._ahead)
        self._ahead = blocks

    def free(self, blocks: int) -> None:
        """Append blocks whose content nobody will ask for."""
        runs = self._runs
        if runs and runs[-1].cached == 0:
            runs[-1].blocks += blocks
        else:
            runs.append(Run(blocks, 0))

    def keep(self, blocks: int, cached: int) -> Run:
        """Append the blocks of a preempted sequence, the leading `cached` of them full, and return where they are."""
        run = Run(blocks, cached)
        self._runs.append(run)
        return run

    def _take(self, blocks: int) -> None:
        runs = self._runs
        while blocks > 0:
            run = runs[0]
            if run.blocks > blocks:
                run.blocks -= blocks
                return
            blocks -= run.blocks
            run.blocks = 0
            runs.popleft()
