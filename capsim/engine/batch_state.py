from __future__ import annotations

import math
from bisect import bisect_right, insort
from collections import deque
from itertools import islice

from capsim.engine.block_pool import BlockPool
from capsim.engine.configuration import EngineConfiguration
from capsim.engine.decode_batch import DecodeBatch
from capsim.engine.hybrid_batch import HybridBatch
from capsim.engine.offload import Offload, OffloadTier
from capsim.engine.prefix_cache import Hit
from capsim.engine.sequence import Sequence

Parts = list[tuple[OffloadTier, int]]
"""What of a sequence lies in which tier, blocks, in order."""


class BatchState:
    """What a scheduler looks at and changes: the queue, the running sequences and the KV blocks they hold.

    Attributes:
        waiting: sequences in the order in which they will be admitted.
        prefilling: running sequences with tokens still to compute before their next one, in running order.
        decodes: running sequences that gain a token in every step.
        pool: the KV blocks.
        offload: tiers behind them; None without.
        leaving: sequences that ended at the last boundary, of which a plan made before it does not know yet.
        seen_until: arrivals up to this time are known to whoever plans, seconds.
        arrivals: sequences that came to a queue by priority so far; the next one's serial number.
        last_arrival: when the last of them came, seconds.
        uneven: as long as a prompt of a smaller serial number is half computed, a decode may find no token left.
        loading: waiting sequences whose blocks are read from a tier, or were and wait for more.
        admissions: sequences admitted so far; the next one's serial number.
        in_vain: plans one after another that preempted and of which no token came.
        touched: sequences handled one by one, a measure of the work done.
    """

    __slots__ = (
        "_by_priority",
        "_footprint",
        "admissions",
        "arrivals",
        "decodes",
        "in_vain",
        "last_arrival",
        "leaving",
        "loading",
        "offload",
        "pool",
        "prefilling",
        "seen_until",
        "touched",
        "uneven",
        "waiting",
    )

    def __init__(self, configuration: EngineConfiguration, keeps_spread: bool = False) -> None:
        self._footprint = configuration.footprint
        self._by_priority = configuration.by_priority
        self.waiting: deque[Sequence] = deque()
        self.prefilling: deque[Sequence] = deque()
        plain, size = configuration.footprint.plain, configuration.block_size
        self.decodes = (
            DecodeBatch(size, keeps_spread) if plain else HybridBatch(configuration.footprint, keeps_spread)
        )
        self.pool = BlockPool(configuration)
        self.offload = Offload(configuration.tiers, configuration.block_size) if configuration.tiers else None
        self.loading: list[Sequence] = []
        self.leaving: list[tuple[Sequence, int, int]] = []
        self.seen_until = math.inf
        self.last_arrival = -math.inf
        self.admissions = self.arrivals = self.uneven = 0
        self.touched = self.in_vain = 0

    @property
    def running(self) -> int:
        """Sequences in the batch."""
        return self.decodes.count + len(self.prefilling)

    @property
    def empty(self) -> bool:
        """No sequence waits or runs."""
        return not (self.decodes.count or self.prefilling or self.waiting)

    def enqueue(self, sequence: Sequence) -> int:
        """Let a sequence that comes wait for its admission; returns its position in the queue."""
        self.last_arrival = sequence.submitted
        if self._by_priority:
            sequence.rank = (sequence.priority, sequence.submitted, self.arrivals)
            self.arrivals += 1
            return self._insert(sequence)
        self.waiting.append(sequence)
        return len(self.waiting) - 1

    def leads(self, position: int) -> bool:
        """Whether all before this position in the queue are those that load, so that nobody there holds it up."""
        if position == 0 or position > len(self.loading):
            return position == 0
        return all(sequence.ready >= 0 for sequence in islice(self.waiting, position))

    def _insert(self, sequence: Sequence) -> int:
        """Put a sequence where its rank belongs in a queue by priority."""
        waiting = self.waiting
        if not waiting or waiting[-1].rank < sequence.rank:
            waiting.append(sequence)
            return len(waiting) - 1
        position = bisect_right(waiting, sequence.rank, key=lambda other: other.rank)
        waiting.insert(position, sequence)
        return position

    def load(self, sequence: Sequence, hit: Hit, parts: Parts, now: float) -> None:
        """Begin to read blocks of a waiting sequence from tiers; it holds them from now on."""
        assert self.offload is not None
        blocks = sum(number for _, number in parts)
        self.pool.admit(sequence, hit)
        self.pool.take(blocks)
        sequence.computed = (hit.blocks + blocks) * self.decodes.block_size
        sequence.ready = self.offload.load(parts, now)
        self.pool.repeated -= hit.blocks + blocks
        self.loading.append(sequence)

    def next_loaded(self, now: float) -> float:
        """When the next sequence has all that it waits for, seconds; infinite if none waits."""
        return min((each.ready for each in self.loading if each.ready > now), default=math.inf)

    def give_up(self, sequence: Sequence) -> None:
        """Let a waiting sequence give up the blocks that it loads or has loaded, if it does."""
        if sequence.ready >= 0:
            blocks = self._end_loading(sequence)
            self.pool.release(sequence, blocks)
            sequence.computed = 0

    def _end_loading(self, sequence: Sequence) -> int:
        """A sequence loads no more; the blocks that it holds."""
        blocks = sequence.computed // self.decodes.block_size
        self.pool.repeated += blocks
        self.loading.remove(sequence)
        sequence.ready = -1.0
        return blocks

    def clear(self) -> None:
        """Forget all KV, on the GPU and in tiers; no sequence may be left."""
        self.pool.clear()
        if self.offload is not None:
            self.offload.clear()

    def admit(self, sequence: Sequence, hit: Hit, position: int, now: float) -> None:
        """Take a sequence from its position in the queue into the batch, with what the cache holds of it computed."""
        del self.waiting[position]
        if sequence.ready >= 0:
            self._end_loading(sequence)
            self.pool.enter(sequence)
        elif sequence.path or hit.blocks:
            self.pool.admit(sequence, hit)
            self.pool.enter(sequence)
            sequence.computed = hit.blocks * self.decodes.block_size
        sequence.admitted = self.admissions
        self.admissions += 1
        if sequence.preemptions:
            sequence.found += sequence.computed
            sequence.recomputed += sequence.lost - sequence.computed
        else:
            sequence.scheduled = now
            if sequence.computed:
                sequence.cached = sequence.first * self.decodes.block_size
                sequence.loaded = sequence.computed - sequence.cached
        self.prefilling.append(sequence)

    def release(self, sequence: Sequence) -> None:
        """Take a running sequence out of the batch and end its hold on KV blocks."""
        blocks, computed = self._leave(sequence)
        self.end(sequence, blocks, computed)

    def end(self, sequence: Sequence, blocks: int, computed: int) -> None:
        """End a sequence that left the batch, with the blocks that it had and the tokens computed in them."""
        if self.offload is not None:
            self.offload.store(sequence, computed // self.decodes.block_size)
        self.pool.release(sequence, blocks)

    def let_go(self) -> None:
        """End those that ended at the last boundary."""
        for sequence, blocks, computed in self.leaving:
            self.end(sequence, blocks, computed)
        self.leaving.clear()

    def preempt(self, sequence: Sequence, now: float, blocks_ahead: int = 0) -> int:
        """Take a running sequence's KV away; it waits to compute all its tokens again: at the head, or by its rank.

        Args:
            sequence: who loses them.
            now: seconds.
            blocks_ahead: blocks that it had taken for the step being planned.

        Returns:
            How many blocks are free because of it: those that nobody else holds.
        """
        if sequence.joined >= 0:
            sequence.last_token = now
        blocks, computed = self._leave(sequence)
        full = computed // self.decodes.block_size
        if self.offload is not None:
            self.offload.store(sequence, full)
        freed = self.pool.preempt(sequence, blocks + blocks_ahead, full)
        sequence.preemptions += 1
        sequence.lost = computed
        sequence.computed = 0
        sequence.target = sequence.prompt + sequence.generated
        if self._by_priority:
            self._insert(sequence)
        else:
            self.waiting.appendleft(sequence)
        return freed

    def leave_out(self, sequence: Sequence, now: float) -> None:
        """Let a decoding sequence miss a step: it owes its next token as a prompt owes the last of its own."""
        self.decodes.leave(sequence)
        sequence.last_token = now
        sequence.target = sequence.prompt + sequence.generated
        sequence.computed = sequence.target - 1
        insort(self.prefilling, sequence, key=lambda other: other.admitted)

    def _leave(self, sequence: Sequence) -> tuple[int, int]:
        """Take a running sequence out of the batch; the blocks that it had, and the tokens computed in them."""
        if sequence.joined < 0:
            self.prefilling.remove(sequence)
            return self._footprint.blocks(sequence.computed), sequence.computed
        computed = sequence.target + self.decodes.step - sequence.joined
        return self.decodes.leave(sequence), computed
