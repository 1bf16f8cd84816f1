from __future__ import annotations

from capsim.engine.configuration import EngineConfiguration
from capsim.engine.free_queue import FreeQueue
from capsim.engine.prefix_cache import Hit, PrefixCache
from capsim.engine.run import Run
from capsim.engine.sequence import NO_HOLDS, Sequence

MISS = Hit(NO_HOLDS, 0, 0)


class BlockPool:
    """The KV blocks of a replica: how many are held, which are free, and what is still in them.

    A block that several sequences hold counts once. A sequence holds leading blocks that it found in the cache, and
    from block `Sequence.first` on blocks of its own.

    Attributes:
        usable: blocks that can be held.
        held: blocks held.
        repeated: how many more blocks the running sequences' block tables have, since some are in several of them.
        queue: the free ones; None where the engine does not cache prefixes.
    """

    __slots__ = ("_block_size", "_cache", "held", "queue", "repeated", "usable")

    def __init__(self, configuration: EngineConfiguration) -> None:
        self._block_size = configuration.block_size
        self.usable = configuration.usable_blocks
        self.held = self.repeated = 0
        self.queue = FreeQueue(self.usable) if configuration.enable_prefix_caching else None
        mingles = configuration.long_prefill_token_threshold > 0
        self._cache = PrefixCache(self._block_size, self.queue, mingles) if self.queue is not None else None

    @property
    def evicted(self) -> int:
        """Blocks taken while somebody could still have asked for their content."""
        return 0 if self.queue is None else self.queue.evicted

    def clear(self) -> None:
        """Forget all content; nothing may be held."""
        if self.queue is not None and self._cache is not None:
            self.queue.reset()
            self._cache.clear()

    def take(self, blocks: int) -> None:
        """Hold more blocks."""
        self.held += blocks
        if blocks and self.queue is not None:
            self.queue.take(blocks)

    def free(self, blocks: int) -> None:
        """Hold fewer blocks, which a window left behind."""
        self.held -= blocks
        if self.queue is not None:
            self.queue.free(blocks)

    def find(self, sequence: Sequence, growth: int) -> Hit:
        """What is there of a waiting sequence.

        The running step's `growth` is taken from the free blocks before anybody looks.
        """
        if self._cache is None or self.queue is None or not (sequence.path or sequence.kept):
            return MISS
        self.queue.take_ahead(growth)
        return self._cache.find(sequence)

    def admit(self, sequence: Sequence, hit: Hit) -> None:
        """Let a sequence hold what was found of it."""
        sequence.first = hit.blocks
        sequence.holds = hit.holds
        self.repeated += hit.blocks
        for run, extent in hit.holds:
            found = run.hold(extent)
            self.held += found
            self.repeated -= found

    def enter(self, sequence: Sequence) -> None:
        """Let others find what a sequence, which runs from now on, has loaded and will compute."""
        cache = self._cache
        if sequence.path and cache is not None and cache.shared_blocks(sequence) > sequence.first:
            cache.enter(sequence, sequence.first)

    def schedule(self, sequence: Sequence, tokens: int) -> None:
        """Its leading `tokens` tokens will be computed when the running step ends: its full blocks are known now."""
        if sequence.run is not None and self._cache is not None:
            full = min(self._cache.shared_blocks(sequence), tokens // self._block_size)
            self._cache.extend(sequence.run, full)

    def release(self, sequence: Sequence, blocks: int) -> int:
        """End a sequence that has `blocks` blocks; returns how many of them nobody holds any more."""
        return self._return(sequence, blocks, 0)

    def preempt(self, sequence: Sequence, blocks: int, full: int) -> int:
        """Take a sequence's blocks away, the leading `full` of them full: it will look for them again."""
        return self._return(sequence, blocks, full)

    def _return(self, sequence: Sequence, blocks: int, known: int) -> int:
        """Free what nobody else holds, the tail first; the sequence itself will ask for its first `known` blocks."""
        queue, cache = self.queue, self._cache
        freed = blocks - sequence.first
        self.held -= freed
        if queue is None or cache is None:
            return freed
        border = sequence.first  # without a run, what it loaded was never known
        if sequence.run is not None:
            border = max(border, min(blocks, cache.shared_blocks(sequence)))
        if known > border:
            queue.keep(cache.leave(sequence, border, known), border, blocks)
        elif blocks > border:
            queue.free(blocks - border)
        if sequence.run is not None:
            freed -= self._disown(sequence.run, border, queue)
            sequence.run = None
        for run, extent in reversed(sequence.holds):
            for part, low, high in run.drop(extent):
                queue.keep(part, low, high)
                self.held -= high - low
                freed += high - low
        self.repeated -= blocks - freed
        sequence.holds = NO_HOLDS
        sequence.first = 0
        return freed

    def _disown(self, run: Run, end: int, queue: FreeQueue) -> int:
        """End the life of a run's owner, which had blocks up to `end`; returns how many others still hold."""
        run.owner = None
        low = min(end, run.held)
        if low < end:
            queue.keep(run, low, end)
        still = low - run.start
        self.held += still
        return still
