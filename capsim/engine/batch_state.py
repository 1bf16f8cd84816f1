from __future__ import annotations

from collections import deque

from capsim.engine.configuration import EngineConfiguration
from capsim.engine.decode_batch import DecodeBatch
from capsim.engine.free_queue import FreeQueue
from capsim.engine.sequence import Sequence


class BatchState:
    """What a scheduler looks at and changes: the queue, the running sequences and the KV blocks they hold.

    Attributes:
        waiting: sequences in the order in which they will be admitted.
        prefilling: running sequences with tokens still to compute before their next one, in running order.
        decodes: running sequences that gain a token in every step.
        blocks: KV blocks held.
        free_queue: what is still in the free ones; None where the engine does not look.
        usable_blocks: KV blocks that can be held.
        admissions: sequences admitted so far; the next one's serial number.
        touched: sequences handled one by one, a measure of the work done.
    """

    __slots__ = (
        "admissions",
        "blocks",
        "decodes",
        "free_queue",
        "prefilling",
        "touched",
        "usable_blocks",
        "waiting",
    )

    def __init__(self, configuration: EngineConfiguration, keeps_spread: bool = False) -> None:
        self.waiting: deque[Sequence] = deque()
        self.prefilling: deque[Sequence] = deque()
        self.decodes = DecodeBatch(configuration.block_size, keeps_spread)
        self.usable_blocks = configuration.usable_blocks
        self.blocks = 0
        self.free_queue = FreeQueue(self.usable_blocks) if configuration.enable_prefix_caching else None
        self.admissions = 0
        self.touched = 0

    @property
    def running(self) -> int:
        """Sequences that hold KV blocks."""
        return self.decodes.count + len(self.prefilling)

    @property
    def empty(self) -> bool:
        """No sequence waits or runs."""
        return not (self.decodes.count or self.prefilling or self.waiting)

    def take(self, blocks: int) -> None:
        """Hold more KV blocks."""
        self.blocks += blocks
        if self.free_queue is not None:
            self.free_queue.take(blocks)

    def free(self, blocks: int) -> None:
        """Hold fewer KV blocks."""
        self.blocks -= blocks
        if self.free_queue is not None:
            self.free_queue.free(blocks)

    def release(self, sequence: Sequence) -> None:
        """Take a running sequence out of the batch and free its KV blocks."""
        self.free(self._leave(sequence)[0])

    def _leave(self, sequence: Sequence) -> tuple[int, int]:
        """Take a running sequence out of the batch; the blocks that it held, and how many of them are full."""
        size = self.decodes.block_size
        if sequence.joined < 0:
            self.prefilling.remove(sequence)
            return -(-sequence.computed // size), sequence.computed // size
        computed = sequence.target + self.decodes.step - sequence.joined
        return self.decodes.leave(sequence), computed // size

    def preempt(self, sequence: Sequence, now: float) -> None:
        """Take a running sequence's KV away; it waits at the head of the queue to compute all its tokens again."""
        if sequence.joined >= 0:
            sequence.last_token = now
        blocks, full = self._leave(sequence)
        self.blocks -= blocks
        if self.free_queue is not None:
            sequence.kept = self.free_queue.keep(blocks, full)
        sequence.preemptions += 1
        sequence.computed = 0
        sequence.target = sequence.prompt + sequence.generated
        self.waiting.appendleft(sequence)

    def cached_blocks(self, sequence: Sequence, growth: int) -> int:
        """Leading blocks of a preempted sequence that still have their content.

        At least one token is always computed, and the running step's `growth` is taken from the free blocks first.
        """
        if sequence.kept is None or self.free_queue is None:
            return 0
        self.free_queue.take_ahead(growth)
        most = (sequence.target - 1) // self.decodes.block_size
        return min(sequence.kept.blocks, sequence.kept.cached, most)

    def claim(self, sequence: Sequence, blocks: int) -> None:
        """Give a preempted sequence its leading blocks back."""
        if sequence.kept is not None:
            sequence.kept.claim(blocks)
        self.blocks += blocks
