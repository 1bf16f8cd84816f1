"""The plain replica of a model whose layers form groups: every group has a block table of its own, in one pool."""

from __future__ import annotations

import math

from capsim.cost.shape import BatchShape
from capsim.cost.step import StepCost
from tests.reference import ReferenceReplica, ReferenceSequence, Work
from tests.reference_pool import ReferenceBlock


class HybridReference(ReferenceReplica):
    """Without a prefix cache. A sequence has `seeing_all` tables, `windowed` ones and the blocks of its `states`.

    Its `blocks` are those of all groups; `tables` knows which tokens each one holds.
    """

    def __init__(
        self, cost: StepCost, *, seeing_all: int, window: int, windowed: int, states: int, **settings: int
    ) -> None:
        super().__init__(cost, enable_prefix_caching=False, **settings)
        self.seeing_all = seeing_all
        self.window = window
        self.windowed = windowed
        self.states = states
        self.tables: dict[ReferenceSequence, list[dict[int, ReferenceBlock]]] = {}

    def has_room(
        self,
        sequence: ReferenceSequence,
        hits: list[ReferenceBlock],  # noqa: ARG002
        reach: int,
    ) -> bool:
        """Whether a sequence may start: blocks for the most that it ever holds, up to its end or its first chunk."""
        whole = self.blocks_for(sequence.tokens if self.reserve_full_prompt else reach)
        asked = self.seeing_all * whole + self.states
        if self.windowed:
            asked += self.windowed * min(whole, self.blocks_for(self.window - 1 + self.budget) + 1)
        kept_back = self.watermark_blocks if self.running else 0
        return asked <= len(self.free) - kept_back

    def allocate(self, sequence: ReferenceSequence, tokens: int) -> bool:
        """Give it the blocks for its first `tokens` tokens in every table, and those of its states at the beginning."""
        places = range(self.blocks_for(sequence.computed), self.blocks_for(tokens))
        growing = self.seeing_all + self.windowed
        first = sequence not in self.tables
        if growing * len(places) + (self.states if first else 0) > len(self.free):
            return False
        if first:
            sequence.blocks = [self.pool.take() for _ in range(self.states)]
            self.tables[sequence] = [{} for _ in range(growing)]
        for table in self.tables[sequence]:
            for place in places:
                table[place] = self.pool.take()
                sequence.blocks.append(table[place])
        return True

    def compute(self, sequence: ReferenceSequence, new: int) -> None:
        """Compute tokens, then free the blocks of which no later query in a window sees a token."""
        super().compute(sequence, new)
        seen_from = sequence.computed - self.window + 1
        for table in self.tables[sequence][self.seeing_all :]:
            for place in [place for place in table if (place + 1) * self.block_size <= seen_from]:
                block = table.pop(place)
                sequence.blocks.remove(block)
                self.pool.give_back([block])

    def release(self, sequence: ReferenceSequence) -> None:
        super().release(sequence)
        self.tables.pop(sequence, None)

    def shape(self, work: Work) -> BatchShape:
        contexts = [sequence.tokens for sequence, _ in work if sequence.decoding]
        window = self.window if self.windowed else math.inf
        return (
            super()
            .shape(work)
            ._replace(
                windowed_context=int(sum(min(context, window) for context in contexts)),
                filling=sum(context < window for context in contexts),
            )
        )

    def record(self, work: Work, now: float, seconds: float) -> None:
        """As ever, but for the room in blocks: it is told only where they are those of one table."""
        super().record(work, now, seconds)
        if (self.seeing_all, self.windowed, self.states) != (1, 0, 0):
            self.steps[-1].unfilled = 0

    def check(self) -> None:
        """Assert that the pool is whole."""
        held = [block for sequence in self.running for block in sequence.blocks]
        assert len(set(held)) == len(held) == self.usable - len(self.free)
        assert all(block.references == 1 for block in held)
        assert not any(sequence.blocks or sequence.computed for sequence in self.waiting)
