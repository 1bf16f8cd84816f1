"""The plain replica: one step at a time, one sequence at a time, one block at a time. Written for clarity alone.

The fast engine must give the same times, token for token. This file, its pool and its tiers share no code with it: they
know only the step cost and the rules of vLLM's scheduler and KV cache.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field

from capsim.cost.shape import BatchShape, Chunk
from capsim.cost.step import StepCost
from tests.reference_pool import Content, ReferenceBlock, ReferencePool
from tests.reference_tiers import ReferenceTier, write_through

TIE = 1e-9


@dataclass(eq=False)
class ReferenceSequence:
    """A request on the replica.

    `path` says which leading prompt tokens other sequences have too: (node, end) with rising ends; two sequences with
    the same node have the same tokens up to its end. `cached`: tokens found in the cache at the first admission;
    `loaded`: in tiers then; `found`: in either at all later ones; `hits`: blocks held in the cache.
    `ready`: when all that it reads from tiers is there. `ending`: its last token is on its way.
    """

    name: int
    arrival: float
    prompt: int
    output: int
    computed: int = 0
    generated: int = 0
    blocks: list[ReferenceBlock] = field(default_factory=list)
    hits: int = 0
    cached: int = 0
    found: int = 0
    loaded: int = 0
    preemptions: int = 0
    decoding: bool = False
    ending: bool = False
    ready: float = -math.inf
    scheduled: float = math.nan
    first_token: float = math.nan
    finish: float = math.nan
    token_times: list[float] = field(default_factory=list)
    path: tuple[tuple[int, int], ...] = ()
    priority: int = 0

    @property
    def rank(self) -> tuple[int, float, int]:
        return self.priority, self.arrival, self.name

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
    """A step; `running`, `waiting`, `free` blocks and `unfilled` tokens of those held are as planned for it."""

    start: float
    seconds: float
    prefill_tokens: int
    decodes: int
    context: int
    running: int
    waiting: int
    free: int
    unfilled: int


Work = list[tuple[ReferenceSequence, int]]
"""What a step computes: sequences, and how many of their tokens."""

MOST_IN_VAIN = 10_000
"""More preemptions without a token between them than any of the drawn cases that end has, by far."""


class NoHeadway(Exception):
    """Sequences take each other's blocks for ever."""


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
        tiers: list[ReferenceTier] | None = None,
        long_prefill_token_threshold: int = 0,
        by_priority: bool = False,
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
        self.tiers = tiers or []
        self.longest_chunk = long_prefill_token_threshold or max_num_batched_tokens
        self.by_priority = by_priority
        self.checked = checked
        self.waiting: deque[ReferenceSequence] = deque()
        self.running: list[ReferenceSequence] = []
        self.steps: list[ReferenceStep] = []
        self.handled = 0
        self.in_vain = 0

    @property
    def free(self) -> deque[ReferenceBlock]:
        return self.pool.free

    @property
    def evictions(self) -> int:
        """How often a block was taken while the cache knew what it held."""
        return len(self.pool.evicted)

    def run(
        self, sequences: list[ReferenceSequence], aborts: list[tuple[float, ReferenceSequence]] | None = None
    ) -> None:
        """Serve sequences in order of arrival; clients give up at the times in `aborts`, before a batch is chosen."""
        arrivals, given_up = deque(sequences), deque(aborts or [])
        now = 0.0
        while arrivals or self.waiting or self.running:
            if not self.waiting and not self.running:
                now = max(now, arrivals[0].arrival)
            while arrivals and arrivals[0].arrival <= now + TIE:
                self.enqueue(arrivals.popleft())
            while given_up and given_up[0][0] <= now + TIE:
                self.drop(given_up.popleft()[1])
            work = self.schedule(now)
            if self.checked:
                self.check()
            if work:
                now = self.step(work, now)
            elif self.waiting:
                events = [sequence.ready for sequence in self.waiting if sequence.ready > now + TIE]
                events += [sequence.arrival for sequence in arrivals] + [time for time, _ in given_up]
                now = min(events)
        assert len(self.free) == self.usable

    def step(self, work: Work, now: float) -> float:
        """Compute the batch; when it ends."""
        seconds = self.cost.step(self.shape(work))
        self.record(work, now, seconds)
        now += seconds
        for sequence, new in work:
            self.handled += 1
            self.compute(sequence, new)
            if sequence.computed == sequence.tokens:
                self.generate(sequence, now)
        if self.checked:
            self.check()
        return now

    # Which batch

    def schedule(self, now: float) -> Work:
        """The batch of the next step; empty if there is nothing to do yet."""
        work, preempted = self.continue_running()
        if not preempted:
            self.admit_waiting(work, now)
        if not work and (preempted or self.unlock(now)):
            return self.schedule(now)
        return work

    def enqueue(self, sequence: ReferenceSequence) -> None:
        """Wait behind all others, or by priority."""
        self.waiting.append(sequence)
        if self.by_priority:
            self.waiting = deque(sorted(self.waiting, key=lambda other: other.rank))

    def continue_running(self) -> tuple[Work, bool]:
        """What running sequences compute, in order; whether one of them found no block and preempted a victim.

        A victim that was to compute something in this step gives its tokens back. Who finds no block though it lost
        all its own ends the step for those behind it.
        """
        work: Work = []
        budget = self.budget
        preempted = False
        position = 0
        while position < len(self.running) and budget > 0:
            sequence = self.running[position]
            if sequence.ending:
                position += 1
                continue
            new = min(sequence.tokens - sequence.computed, self.longest_chunk, budget)
            while not self.allocate(sequence, sequence.computed + new):
                victim = self.victim()
                for entry in work:
                    if entry[0] is victim:
                        work.remove(entry)
                        budget += entry[1]
                        position -= 1
                        break
                self.running.remove(victim)
                self.preempt(victim)
                preempted = True
                if victim is sequence:
                    self.leave_out(self.running[position:])
                    return work, preempted
            work.append((sequence, new))
            budget -= new
            position += 1
        self.leave_out(self.running[position:])
        return work, preempted

    def victim(self) -> ReferenceSequence:
        """Who loses its blocks: the last one admitted; by priority, the last one in the order of the queue."""
        running = [sequence for sequence in self.running if not sequence.ending]
        return max(running, key=lambda sequence: sequence.rank) if self.by_priority else running[-1]

    def leave_out(self, sequences: list[ReferenceSequence]) -> None:
        """Let sequences miss a step; one that decodes computes its next token as the last chunk of a prompt."""
        for sequence in sequences:
            sequence.decoding = sequence.decoding and sequence.ending

    def admit_waiting(self, work: Work, now: float) -> None:
        """Go through the queue; who cannot start yet holds up those behind it, unless it is loading."""
        budget = self.budget - sum(new for _, new in work)
        for sequence in list(self.waiting):
            if budget == 0 or len(self.running) == self.max_num_seqs:
                break
            if sequence.ready > now + TIE:
                continue
            hits = sequence.blocks or self.hits(sequence)
            parts = [] if sequence.blocks else self.parts(sequence, len(hits))
            chunk = min(budget, self.longest_chunk)
            reach = (len(hits) + len(parts)) * self.block_size + (0 if parts else chunk)
            if not self.has_room(sequence, hits, min(sequence.tokens, reach)):
                break
            if not sequence.blocks:
                self.hold(sequence, hits)
            if parts:
                self.load(sequence, parts, now)
                continue
            new = self.admit(sequence, chunk, now)
            work.append((sequence, new))
            budget -= new

    def has_room(self, sequence: ReferenceSequence, hits: list[ReferenceBlock], reach: int) -> bool:
        """Whether a sequence may start: blocks for all its tokens, or for those that it has after this step."""
        whole = sequence.tokens if self.reserve_full_prompt else reach
        asked = self.blocks_for(whole) - len(hits) + sum(block.references == 0 for block in hits)
        kept_back = self.watermark_blocks if self.running else 0
        return asked <= len(self.free) - kept_back

    def hold(self, sequence: ReferenceSequence, hits: list[ReferenceBlock]) -> None:
        """Let a waiting sequence have the blocks that the cache has of it."""
        for block in hits:
            self.pool.share(block)
        sequence.blocks = hits
        sequence.hits = len(hits)

    def admit(self, sequence: ReferenceSequence, chunk: int, now: float) -> int:
        """Let a waiting sequence run, all that its blocks hold computed; its new tokens, at most a chunk."""
        self.waiting.remove(sequence)
        self.running.append(sequence)
        sequence.ready = -math.inf
        sequence.computed = len(sequence.blocks) * self.block_size
        if sequence.preemptions == 0:
            sequence.cached = sequence.hits * self.block_size
            sequence.loaded = sequence.computed - sequence.cached
        else:
            sequence.found += sequence.computed
        new = min(sequence.tokens - sequence.computed, chunk)
        assert self.allocate(sequence, sequence.computed + new)
        if sequence.preemptions == 0:
            sequence.scheduled = now
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

    # What is loaded

    def parts(self, sequence: ReferenceSequence, hits: int) -> list[ReferenceTier]:
        """For each block after the hits, as many as there are in a row, the nearest tier that has it."""
        parts: list[ReferenceTier] = []
        for place in range(hits, (sequence.tokens - 1) // self.block_size):
            content = sequence.content(place, self.block_size)
            tier = next((tier for tier in self.tiers if tier.holds(content)), None)
            if tier is None:
                break
            parts.append(tier)
        return parts

    def load(self, sequence: ReferenceSequence, parts: list[ReferenceTier], now: float) -> None:
        """Begin to read blocks into the GPU's memory; the sequence keeps its place in the queue."""
        sequence.blocks += [self.pool.take() for _ in parts]
        sequence.ready = max(tier.read(parts.count(tier), now) for tier in self.tiers if tier in parts)

    def unlock(self, now: float) -> bool:
        """Where nobody can start for want of blocks that others loaded, the last of those gives them up."""
        if self.running or any(sequence.ready > now + TIE for sequence in self.waiting):
            return False
        for sequence in reversed(self.waiting):
            if sequence.blocks:
                self.release(sequence)
                return True
        return False

    def write(self, sequence: ReferenceSequence) -> None:
        """Write its full blocks to the tiers, the last one first."""
        places = reversed(range(sequence.computed // self.block_size))
        write_through(self.tiers, [sequence.content(place, self.block_size) for place in places])

    # Blocks

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
        sequence.ready = -math.inf

    def preempt(self, sequence: ReferenceSequence) -> None:
        """Take all its blocks; those that it was to fill in this step hold nothing."""
        self.in_vain += 1
        if self.in_vain > MOST_IN_VAIN:
            raise NoHeadway
        for block in sequence.blocks[sequence.computed // self.block_size :]:
            self.pool.forget(block)
        self.write(sequence)
        self.release(sequence)
        sequence.computed = 0
        sequence.preemptions += 1
        sequence.decoding = False
        if self.by_priority:
            self.enqueue(sequence)
        else:
            self.waiting.appendleft(sequence)

    def drop(self, sequence: ReferenceSequence) -> None:
        """Forget a sequence that has not ended."""
        if sequence in self.waiting:
            self.waiting.remove(sequence)
            self.release(sequence)
        elif sequence in self.running:
            self.running.remove(sequence)
            self.release(sequence)

    def compute(self, sequence: ReferenceSequence, new: int) -> None:
        sequence.computed += new

    def generate(self, sequence: ReferenceSequence, now: float) -> None:
        self.in_vain = 0
        sequence.generated += 1
        sequence.decoding = True
        sequence.token_times.append(now)
        if sequence.generated == 1:
            sequence.first_token = now
        if sequence.generated == sequence.output:
            sequence.finish = now
            self.write(sequence)
            self.release(sequence)
            self.running.remove(sequence)

    # What is seen

    def shape(self, work: Work) -> BatchShape:
        chunks = [Chunk(new, sequence.computed) for sequence, new in work if not sequence.decoding]
        contexts = [sequence.tokens for sequence, _ in work if sequence.decoding]
        return BatchShape(
            chunks,
            len(contexts),
            sum(contexts),
            squared_context=sum(context**2 for context in contexts),
            largest_context=max(contexts, default=0),
        )

    def record(self, work: Work, now: float, seconds: float) -> None:
        chunks = sum(new for sequence, new in work if not sequence.decoding)
        contexts = [sequence.tokens for sequence, _ in work if sequence.decoding]
        room = sum(len(sequence.blocks) * self.block_size - sequence.computed for sequence in self.running)
        room -= sum(new for _, new in work)
        queues = (len(self.running), len(self.waiting), len(self.free))
        self.steps.append(ReferenceStep(now, seconds, chunks, len(contexts), sum(contexts), *queues, room))

    def check(self) -> None:
        """Assert that the pool is whole: every block is accounted for once, and the cache tells the truth."""
        size = self.block_size
        free = set(self.free)
        held = [block for sequence in (*self.running, *self.waiting) for block in sequence.blocks]
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
        assert not any(sequence.computed for sequence in self.waiting)
        assert not any(sequence.blocks and sequence.ready < 0 for sequence in self.waiting)
