from __future__ import annotations

from collections import deque

from capsim.engine.configuration import EngineConfiguration
from capsim.engine.decode_batch import DecodeBatch
from capsim.engine.sequence import Sequence


class BatchState:
    """What a scheduler looks at and changes: the queue, the running sequences and the KV blocks they hold.

    Attributes:
        waiting: sequences in the order in which they will be admitted.
        prefilling: running sequences with tokens still to compute before their next one, in running order.
        decodes: running sequences that gain a token in every step.
        blocks: KV blocks held.
        usable_blocks: KV blocks that can be held.
        admissions: sequences admitted so far; the next one's serial number.
        touched: sequences handled one by one, a measure of the work done.
    """

    __slots__ = ("admissions", "blocks", "decodes", "prefilling", "touched", "usable_blocks", "waiting")

    def __init__(self, configuration: EngineConfiguration, keeps_spread: bool = False) -> None:
        self.waiting: deque[Sequence] = deque()
        self.prefilling: deque[Sequence] = deque()
        self.decodes = DecodeBatch(configuration.block_size, keeps_spread)
        self.usable_blocks = configuration.usable_blocks
        self.blocks = 0
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

    def release(self, sequence: Sequence) -> None:
        """Take a running sequence out of the batch and free its KV blocks."""
        if sequence.joined >= 0:
            self.blocks -= self.decodes.leave(sequence)
        else:
            self.prefilling.remove(sequence)
            self.blocks -= -(-sequence.computed // self.decodes.block_size)

    def preempt(self, sequence: Sequence, now: float) -> None:
        """Take a running sequence's KV away; it waits at the head of the queue to compute all its tokens again."""
        if sequence.joined >= 0:
            sequence.last_token = now
        self.release(sequence)
        sequence.preemptions += 1
        sequence.computed = 0
        sequence.target = sequence.prompt + sequence.generated
        self.waiting.appendleft(sequence)
