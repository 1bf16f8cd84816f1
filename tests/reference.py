"""The plain replica: one step at a time, one sequence at a time, one block at a time. Written for clarity alone.

The fast engine must give the same times, token for token. This file shares no code with it: it knows only the step cost
and the rules of vLLM's scheduler.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field

from capsim.cost.shape import BatchShape, Chunk
from capsim.cost.step import StepCost

TIE = 1e-9
Content = tuple[int, int] | None
"""Which block of which sequence is still in a free block; None where nobody will look for what is in it."""


@dataclass(eq=False)
class ReferenceSequence:
    name: int
    arrival: float
    prompt: int
    output: int
    computed: int = 0
    generated: int = 0
    blocks: int = 0
    cached: int = 0
    preemptions: int = 0
    decoding: bool = False
    scheduled: float = math.nan
    first_token: float = math.nan
    finish: float = math.nan
    token_times: list[float] = field(default_factory=list)

    @property
    def tokens(self) -> int:
        return self.prompt + self.generated

    def blocks_for(self, tokens: int, block_size: int) -> int:
        return math.ceil(tokens / block_size)


@dataclass
class ReferenceStep:
    start: float
    seconds: float
    prefill_tokens: int
    decodes: int
    context: int


class ReferenceReplica:
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
    ) -> None:
        self.cost = cost
        self.usable = usable_blocks
        self.enable_prefix_caching = enable_prefix_caching
        self.free: list[Content] = [None] * usable_blocks
        self.block_size = block_size
        self.max_num_seqs = max_num_seqs
        self.budget = max_num_batched_tokens
        self.reserve_full_prompt = reserve_full_prompt
        self.waiting: deque[ReferenceSequence] = deque()
        self.running: list[ReferenceSequence] = []
        self.steps: list[ReferenceStep] = []
        self.handled = 0

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
        seconds = self.cost.step(self.shape(work))
        chunks = sum(new for sequence, new in work if not sequence.decoding)
        decodes = [sequence for sequence, _ in work if sequence.decoding]
        context = sum(sequence.tokens for sequence in decodes)
        self.steps.append(ReferenceStep(now, seconds, chunks, len(decodes), context))
        now += seconds
        for sequence, new in work:
            self.handled += 1
            sequence.computed += new
            if sequence.computed == sequence.tokens:
                self.generate(sequence, now)
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
            sequence = self.waiting[0]
            found = self.cached_blocks(sequence)
            computed = len(found) * self.block_size
            new = min(sequence.tokens - computed, budget)
            whole = sequence.tokens if self.reserve_full_prompt else computed + new
            if sequence.blocks_for(whole, self.block_size) > len(self.free):
                break
            self.waiting.popleft()
            for content in found:
                self.free.remove(content)
            self.free = [
                None if content and content[0] == sequence.name else content for content in self.free
            ]
            sequence.blocks, sequence.computed = len(found), computed
            sequence.cached += computed
            assert self.allocate(sequence, computed + new)
            self.running.append(sequence)
            if sequence.preemptions == 0:
                sequence.scheduled = now
            work.append((sequence, new))
            budget -= new
        return work

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

    def allocate(self, sequence: ReferenceSequence, tokens: int) -> bool:
        missing = sequence.blocks_for(tokens, self.block_size) - sequence.blocks
        if missing > len(self.free):
            return False
        del self.free[:missing]
        sequence.blocks += missing
        return True

    def release(self, sequence: ReferenceSequence) -> None:
        self.free += [None] * sequence.blocks
        sequence.blocks = 0

    def cached_blocks(self, sequence: ReferenceSequence) -> list[Content]:
        """The leading blocks that still hold its tokens; the last token is always computed."""
        found: list[Content] = []
        while (len(found) + 1) * self.block_size < sequence.tokens and (
            sequence.name,
            len(found),
        ) in self.free:
            found.append((sequence.name, len(found)))
        return found

    def preempt(self, sequence: ReferenceSequence) -> None:
        full = sequence.computed // self.block_size if self.enable_prefix_caching else 0
        for block in reversed(range(sequence.blocks)):
            self.free.append((sequence.name, block) if block < full else None)
        sequence.blocks = 0
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
