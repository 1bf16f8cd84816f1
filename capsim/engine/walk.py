from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter

from capsim.engine.batch_state import BatchState
from capsim.engine.configuration import EngineConfiguration
from capsim.engine.sequence import Sequence

Taken = Callable[[int, int], int]
"""Blocks taken to compute a sequence's tokens from one count to another."""


class Walk:
    """The running sequences planned one by one, in running order: the one slow path.

    Whoever finds no block takes those of a victim: of the sequence admitted last, or, by priority, of the one with the
    largest rank, wherever it stands. A victim that had its share of the step gives tokens and blocks back. When a
    sequence is its own victim, those behind it are left out of the step.

    As the loop over running requests of vLLM 0.19 (``vllm/v1/core/sched/scheduler.py``). There the cache goes on to
    know blocks that a victim was to fill in this step; here it does not, since they are not filled.

    Attributes:
        budget: what is left of the step's tokens.
        growth: blocks that the decodes take.
        chunks: prompts with their new tokens and the blocks for them; none of them is taken yet.
        preempted: somebody lost its blocks.
    """

    def __init__(self, configuration: EngineConfiguration, state: BatchState, taken: Taken) -> None:
        self.budget = configuration.max_num_batched_tokens
        self.growth = 0
        self.chunks: list[tuple[Sequence, int, int]] = []
        self.preempted = False
        self._state = state
        self._taken = taken
        self._longest_chunk = configuration.longest_chunk
        self._by_priority = configuration.by_priority
        self._order = state.decodes.members()
        if state.prefilling:
            self._order = sorted([*self._order, *state.prefilling], key=attrgetter("admitted"))
        self._served = 0  # so many of the first ones in order have their share of the step
        self._blocks = 0  # of these shares
        self._shares: dict[Sequence, tuple[int, int]] = {}  # of prompts: tokens and blocks

    def run(self, now: float) -> None:
        """Give each sequence its share of the step, as far as tokens and blocks go."""
        state, order = self._state, self._order
        pool, needed = state.pool, state.decodes.blocks_needed
        state.touched += len(order)
        place, budget = 0, self.budget
        while place < len(order) and budget > 0:
            sequence = order[place]
            if sequence.joined < 0:
                new, blocks = self._chunk(sequence, budget)
            else:
                new, blocks = 1, needed(sequence)
            if blocks:
                if pool.held + self._blocks + blocks > pool.usable:
                    self._served, self.budget = place, budget
                    there_is_room = self._make_room(sequence, blocks, now)
                    place, budget = self._served, self.budget
                    if not there_is_room:
                        break
                self._blocks += blocks
            budget -= new
            place += 1
        self._served, self.budget = place, budget
        self._finish(now)

    def _chunk(self, sequence: Sequence, budget: int) -> tuple[int, int]:
        """Tokens that a prompt computes in this step, and blocks for them."""
        new = min(sequence.target - sequence.computed, self._longest_chunk, budget)
        blocks = self._taken(sequence.computed, sequence.computed + new)
        self._shares[sequence] = new, blocks
        return new, blocks

    def _make_room(self, sequence: Sequence, blocks: int, now: float) -> bool:
        """Preempt until so many blocks are free for a sequence; False if it lost its own."""
        pool, order = self._state.pool, self._order
        while pool.held + self._blocks + blocks > pool.usable:
            victim = max(order, key=attrgetter("rank")) if self._by_priority else order[-1]
            self._preempt(victim, now)
            if victim is sequence:
                return False
        return True

    def _preempt(self, victim: Sequence, now: float) -> None:
        """Take a victim's blocks away, and what it has of the step."""
        place = self._order.index(victim) if self._by_priority else len(self._order) - 1
        del self._order[place]
        blocks = 0
        if place < self._served:
            new, blocks = self._share(victim)
            self.budget += new
            self._blocks -= blocks
            self._served -= 1
            self._state.pool.take(blocks)  # free again in a moment, but no longer as they were
        self._state.preempt(victim, now, blocks)
        self.preempted = True

    def _share(self, sequence: Sequence) -> tuple[int, int]:
        """Tokens and blocks that a sequence has of the step."""
        if sequence.joined >= 0:
            return 1, self._state.decodes.blocks_needed(sequence)
        return self._shares[sequence]

    def _finish(self, now: float) -> None:
        """Sum up the shares; decodes without one miss the step."""
        prompts = [sequence for sequence in self._order[: self._served] if sequence.joined < 0]
        self.chunks = [(sequence, *self._shares[sequence]) for sequence in prompts]
        self.growth = self._blocks - sum(blocks for _, _, blocks in self.chunks)
        for sequence in self._order[self._served :]:
            if sequence.joined >= 0:
                self._state.leave_out(sequence, now)
