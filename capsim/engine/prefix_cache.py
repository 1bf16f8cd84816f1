from __future__ import annotations

from typing import NamedTuple

from capsim.engine.free_queue import FreeQueue
from capsim.engine.run import Run
from capsim.engine.sequence import Sequence


class Hit(NamedTuple):
    """What the cache holds of a sequence.

    Attributes:
        holds: runs in order, and up to which block of the sequence each one is used.
        blocks: leading full blocks found.
        free: how many of them nobody holds.
    """

    holds: list[tuple[Run, int]]
    blocks: int
    free: int


class PrefixCache:
    """Which runs hold which content: the whole blocks of prompts that requests share, and of preempted sequences.

    Content is a tree: a node stands for its tokens and all before it, so that equal nodes are equal prompts up to
    there. A hit is the longest run of leading full blocks; a block is known as soon as it is scheduled, so that a
    sequence planned later in the same step finds it. Where a content is there twice, the first one computed is used.

    Args:
        block_size: tokens in a block.
        queue: the free blocks.
        mingles: whether prompts that begin alike may be computed at the same time. Without that the one that was
            admitted first has all its blocks first.
    """

    def __init__(self, block_size: int, queue: FreeQueue, mingles: bool) -> None:
        self._block_size = block_size
        self._queue = queue
        self._mingles = mingles
        self._marks = 0
        self._runs: dict[int, list[Run]] = {}

    def clear(self) -> None:
        """Forget everything, as when the engine starts."""
        self._runs.clear()

    def shared_blocks(self, sequence: Sequence) -> int:
        """Leading blocks of a sequence that another request may have too."""
        return sequence.path[-1][1] // self._block_size if sequence.path else 0

    def find(self, sequence: Sequence) -> Hit:
        """The leading blocks of a waiting sequence that are there; at least its last token is left to compute."""
        size = self._block_size
        most = (sequence.target - 1) // size
        holds: list[tuple[Run, int]] = []
        position = 0
        for node, end in sequence.path:
            position = self._follow(self._runs.get(node), position, min(end // size, most), holds)
            if position < end // size:
                return _hit(holds, position)
        return _hit(holds, self._follow(sequence.kept, position, most, holds))

    def _follow(self, runs: list[Run] | None, position: int, end: int, holds: list[tuple[Run, int]]) -> int:
        """Use runs from `position` on, at most to `end`; returns how far they go."""
        while runs and position < end:
            run, reach = self._first_at(runs, position, end)
            if run is None:
                return position
            if holds and holds[-1][0] is run:
                holds.pop()
            elif run.start < position:
                run = self._second_part(run, position)
            position = min(reach, run.full)
            holds.append((run, position))
        return position

    def _first_at(self, runs: list[Run], position: int, end: int) -> tuple[Run | None, int]:
        """The run that had a block first, and up to which block, at most `end`, it surely is the first one."""
        if self._mingles and len(runs) > 1:
            there = [run for run in runs if run.start <= position < run.full and run.marks]
            if there:
                return _earliest_at(there, runs, position, end)
        reach = end
        for run in runs:
            if run.start <= position < run.full:
                return run, reach
            if position < run.start < run.full:
                reach = min(reach, run.start)  # from there on it is the first one computed
        return None, position

    def _second_part(self, run: Run, position: int) -> Run:
        rest, piece = run.split(position)
        if piece is not None:
            self._queue.cut(piece, rest)
        return rest

    def enter(self, sequence: Sequence, first: int) -> None:
        """Let others find what an admitted sequence computes of its shared blocks, from block `first` on."""
        size = self._block_size
        run = sequence.run = Run(first, first, sequence)
        for node, end in sequence.path:
            if end // size > first:
                known = self._runs.setdefault(node, [])
                if len(known) > 3:
                    known[:] = [other for other in known if not other.empty]
                known.append(run)
                run.known_in.append(known)

    def extend(self, run: Run, full: int) -> None:
        """Know of a run's blocks up to before `full`."""
        if self._mingles and full > run.full:
            self._marks += 1
            run.marks.append((full, self._marks))
        run.full = full

    def leave(self, sequence: Sequence, first: int, full: int) -> Run:
        """Let a preempted sequence find its own blocks again, from `first` to before `full`."""
        run = Run(first, full)
        if not sequence.kept:
            sequence.kept = []
        sequence.kept.append(run)
        run.known_in.append(sequence.kept)
        return run


def _earliest_at(there: list[Run], runs: list[Run], position: int, end: int) -> tuple[Run, int]:
    """As `PrefixCache._first_at`, by the marks of those runs that have the block.

    From one mark or end of a run to the next, all blocks are alike.
    """
    first = min(there, key=lambda run: run.computed_at(position))
    edges = [run.start for run in runs] + [run.full for run in there]
    edges += [full for run in there for full, _ in run.marks]
    return first, min([end, *(edge for edge in edges if edge > position)])


def _hit(holds: list[tuple[Run, int]], blocks: int) -> Hit:
    return Hit(holds, blocks, sum(run.free_before(extent) for run, extent in holds))
