"""The plain replica: one step at a time, one sequence at a time, one block at a time. Written for clarity alone.

The fast engine must give the same times, token for token. This file and its pool share no code with it: they know only
the step cost and the rules of vLLM's scheduler and KV cache.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field

from capsim.cost.shape import BatchShape, Chunk
from capsim.cost.step import StepCost
from tests.reference_pool import Content, ReferenceBlock, ReferencePool

TIE = 1e-9


@dataclass(eq=False)
class ReferenceSequence:
    """A request on the replica.

    `path` says which leading prompt tokens other sequences have too: (node, end) with rising ends; two sequences with
    the same node have the same tokens up to its end. `cached`: tokens found in the cache at the first admission;
    `found`: at all later ones.
    """

    name: int
    arrival: float
    prompt: int
    output: int
    computed: int = 0
    generated: int = 0
    blocks: list[ReferenceBlock] = field(default_factory=list)
    cached: int = 0
    found: int = 0
    preemptions: int = 0
    decoding: bool = False
    scheduled: float = math.nan
    first_token: float = math.nan
    finish: float = math.nan
    token_times: list[float] = field(default_factory=list)
    path: tuple[tuple[int, int], ...] = ()

    @property
    def tokens(self) -> int:
        return self.prompt + self.generated

    def content(self, place: int, block_size: int) -> Content:
        """What its block at this place holds once it is full."""
        for node, end in self.path:
            if end >= (place + 1) * block_size:
                return node, place
        return ("sequence", self.name), place


@dataclass
class ReferenceStep:
    """A step; `running`, `waiting` and `free` blocks are those after it was planned."""

    start: float
    seconds: float
    prefill_tokens: int
    decodes: int
    context: int
    running: int
    waiting: int
    free: int


class ReferenceReplica:
    """Serves sequences; with `checked` the state is checked after every plan and every step, which is slow."""

    def __init__(
        self,
        cost: StepCost,
        *,
        usable_blocks: int,
        block_size: int,
        max_num_seqs: int,
        max_num_batched_tokens: int,
        reserve_full_prompt: bool = True,
        enable_prefix_caching: bool = False,
        watermark_blocks: int = 0,
        checked: bool = False,
    ) -> None:
        self.cost = cost
        self.usable = usable_blocks
        self.pool = ReferencePool(usable_blocks)
        self.block_size = block_size
        self.max_num_seqs = max_num_seqs
        self.budget = max_num_batched_tokens
        self.reserve_full_prompt = reserve_full_prompt
        self.enable_prefix_caching = enable_prefix_caching
        self.watermark_blocks = watermark_blocks
        self.checked = checked
        self.waiting: deque[ReferenceSequence] = deque()
        self.running: list[ReferenceSequence] = []
        self.steps: list[ReferenceStep] = []
        self.handled = 0

    @property
    def free(self) -> deque[ReferenceBlock]:
        return self.pool.free

    @property
    def evictions(self) -> int:
        """How often a block was taken while the cache knew what it held."""
        return self.pool.evictions

    def run(self, sequences: list[ReferenceSequence]) -> None:
        arrivals = deque(sequences)
        now = 0.0
        while arrivals or self.waiting or self.running:
            if not self.waiting and not self.running:
                now = max(now, arrivals[0].arrival)
            while arrivals and arrivals[0].arrival <= now + TIE:
                self.waiting.append(arrivals.popleft())
            now = self.step(now)
        assert len(self.free) == self.usable

    def step(self, now: float) -> float:
        work = self.schedule(now)
        if self.checked:
            self.check()
        seconds = self.cost.step(self.shape(work))
        self.record(work, now, seconds)
        now += seconds
        for sequence, new in work:
            self.handled += 1
            sequence.computed += new
            if sequence.computed == sequence.tokens:
                self.generate(sequence, now)
        if self.checked:
            self.check()
        return now

    def schedule(self, now: float) -> list[tuple[ReferenceSequence, int]]:
        work: list[tuple[ReferenceSequence, int]] = []
        budget = self.budget
        preempted = False
        position = 0
        while position < len(self.running) and budget > 0:
            sequence = self.running[position]
            new = min(sequence.tokens - sequence.computed, budget)
            while not self.allocate(sequence, sequence.computed + new):
                victim = self.running.pop()
                self.preempt(victim)
                preempted = True
                if victim is sequence:
                    break
            else:
                work.append((sequence, new))
                budget -= new
                position += 1
                continue
            break
        while not preempted and self.waiting and budget > 0 and len(self.running) < self.max_num_seqs:
            new = self.admit(self.waiting[0], budget, now)
            if new == 0:
                break
            work.append((self.running[-1], new))
            budget -= new
        return work

    def admit(self, sequence: ReferenceSequence, budget: int, now: float) -> int:
        """Start the head of the queue, with the blocks that the cache has; its new tokens, 0 if it must wait."""
        hits = self.hits(sequence)
        computed = len(hits) * self.block_size
        new = min(sequence.tokens - computed, budget)
        whole = sequence.tokens if self.reserve_full_prompt else computed + new
        asked = self.blocks_for(whole) - len(hits) + sum(block.references == 0 for block in hits)
        kept_back = self.watermark_blocks if self.running else 0
        if asked > len(self.free) - kept_back:
            return 0
        self.running.append(self.waiting.popleft())
        for block in hits:
            self.pool.share(block)
        sequence.blocks, sequence.computed = hits, computed
        assert self.allocate(sequence, computed + new)
        if sequence.preemptions == 0:
            sequence.scheduled = now
            sequence.cached = computed
        else:
            sequence.found += computed
        return new

    def hits(self, sequence: ReferenceSequence) -> list[ReferenceBlock]:
        """Blocks that hold its leading tokens, as many as there are in a row; the last token is always computed."""
        hits: list[ReferenceBlock] = []
        if self.enable_prefix_caching:
            for place in range((sequence.tokens - 1) // self.block_size):
                block = self.pool.find(sequence.content(place, self.block_size))
                if block is None:
                    break
                hits.append(block)
        return hits

    def blocks_for(self, tokens: int) -> int:
        return math.ceil(tokens / self.block_size)

    def allocate(self, sequence: ReferenceSequence, tokens: int) -> bool:
        """Give it the blocks for its first `tokens` tokens, and let the cache know those that will be full."""
        missing = self.blocks_for(tokens) - len(sequence.blocks)
        if missing > len(self.free):
            return False
        sequence.blocks += [self.pool.take() for _ in range(missing)]
        if self.enable_prefix_caching:
            for place, block in enumerate(sequence.blocks[: tokens // self.block_size]):
                if block.content is None:
                    self.pool.enter(block, sequence.content(place, self.block_size))
        return True

    def release(self, sequence: ReferenceSequence) -> None:
        self.pool.give_back(sequence.blocks)
        sequence.blocks = []

    def preempt(self, sequence: ReferenceSequence) -> None:
        self.release(sequence)
        sequence.computed = 0
        sequence.preemptions += 1
        sequence.decoding = False
        self.waiting.appendleft(sequence)

    def generate(self, sequence: ReferenceSequence, now: float) -> None:
        sequence.generated += 1
        sequence.decoding = True
        sequence.token_times.append(now)
        if sequence.generated == 1:
            sequence.first_token = now
        if sequence.generated == sequence.output:
            sequence.finish = now
            self.release(sequence)
            self.running.remove(sequence)

    def shape(self, work: list[tuple[ReferenceSequence, int]]) -> BatchShape:
        chunks = [Chunk(new, sequence.computed) for sequence, new in work if not sequence.decoding]
        contexts = [sequence.tokens for sequence, _ in work if sequence.decoding]
        return BatchShape(
            chunks,
            len(contexts),
            sum(contexts),
            squared_context=sum(context**2 for context in contexts),
            largest_context=max(contexts, default=0),
        )

    def record(self, work: list[tuple[ReferenceSequence, int]], now: float, seconds: float) -> None:
        chunks = sum(new for sequence, new in work if not sequence.decoding)
        contexts = [sequence.tokens for sequence, _ in work if sequence.decoding]
        queues = (len(self.running), len(self.waiting), len(self.free))
        self.steps.append(ReferenceStep(now, seconds, chunks, len(contexts), sum(contexts), *queues))

    def check(self) -> None:
        """Assert that the pool is whole: every block is accounted for once, and the cache tells the truth."""
        size = self.block_size
        free = set(self.free)
        held = [block for sequence in self.running for block in sequence.blocks]
        assert len(free) == len(self.free)
        assert all((block.references == 0) == (block in free) for block in self.pool.blocks)
        assert sum(block.references for block in self.pool.blocks) == len(held)
        assert len(free) + len(set(held)) == self.usable == len(self.pool.blocks)
        for content, blocks in self.pool.cached.items():
            assert blocks
            assert len(set(blocks)) == len(blocks)
            assert all(block.content == content for block in blocks)
        known = sum(len(blocks) for blocks in self.pool.cached.values())
        assert known == sum(block.content is not None for block in self.pool.blocks)
        for sequence in self.running:
            assert len(sequence.blocks) >= self.blocks_for(sequence.computed)
            for place, block in enumerate(sequence.blocks[: sequence.computed // size]):
                expected = sequence.content(place, size) if self.enable_prefix_caching else None
                assert block.content == expected
        assert not any(sequence.blocks or sequence.computed for sequence in self.waiting)
