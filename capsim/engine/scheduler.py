from __future__ import annotations

from typing import Protocol

from capsim.cost.shape import Chunk
from capsim.engine.batch_state import BatchState
from capsim.engine.configuration import EngineConfiguration
from capsim.engine.plan import Plan
from capsim.engine.sequence import Sequence

NOTHING = Plan((), (), 0, 0)


class Scheduler(Protocol):
    """Chooses the batch. A policy is right with plans of 1 step before it is fast with longer ones."""

    def plan(self, state: BatchState, now: float) -> Plan:
        """Choose the next batch at a step boundary and change the queues accordingly."""

    def could_admit(self, state: BatchState) -> bool:
        """Whether the head of a queue that was empty might be admitted at a step boundary inside the current plan."""


class _Step:
    """The step being planned: what is left of its token budget and of the KV pool, and the chunks it has so far."""

    __slots__ = ("budget", "chunks", "free", "sequences")

    def __init__(self, budget: int, free: int) -> None:
        self.budget = budget
        self.free = free
        self.chunks: list[Chunk] = []
        self.sequences: list[Sequence] = []

    def compute(self, state: BatchState, sequence: Sequence, new: int, blocks: int) -> None:
        """Let a sequence compute `new` tokens in `blocks` new KV blocks."""
        self.budget -= new
        self.free -= blocks
        state.take(blocks)
        self.chunks.append(Chunk(new, sequence.computed))
        self.sequences.append(sequence)


class VllmScheduler:
    """vLLM V1: running sequences first, then the queue in order of arrival, under one token budget.

    - Each decode takes one token of `max_num_batched_tokens`; unfinished prompts take what is left (chunked prefill),
      then waiting sequences are admitted while budget, `max_num_seqs` and KV blocks allow. The head of the queue
      blocks those behind it.
    - Admission asks for free blocks for the whole prompt but takes them chunk by chunk, so that decodes which grow in
      between can leave a half-computed prompt short of blocks.
    - When a running sequence needs a block and none is free, the last admitted one loses all its blocks and goes to
      the front of the queue; nothing is admitted in that step; later it computes prompt and generated tokens again.
    - With prefix caching it finds its leading blocks again, as far as nobody took them, and computes the rest.

    Behaviour of vLLM 0.19 (``vllm/v1/core/sched/scheduler.py``, ``kv_cache_manager.py``), without prefixes that
    requests share.
    """

    def __init__(self, configuration: EngineConfiguration) -> None:
        self._budget = configuration.max_num_batched_tokens
        self._max_running = configuration.max_num_seqs
        self._block_size = configuration.block_size
        self._reserve_full_prompt = configuration.reserve_full_prompt

    def plan(self, state: BatchState, now: float) -> Plan:
        """The next batch; decodes alone hold until one ends or the KV pool runs dry."""
        decodes = state.decodes
        growth = decodes.blocks_in(1)
        preempted = state.blocks + growth > state.usable_blocks
        if preempted:
            self._preempt(state, now)
            growth = decodes.blocks_in(1)
        if state.prefilling or (state.waiting and not preempted):
            step = _Step(self._budget - decodes.count, state.usable_blocks - state.blocks - growth)
            if state.prefilling:
                preempted |= self._continue_prefills(state, step, now)
            if state.waiting and not preempted:
                self._admit(state, step, growth, now)
            if step.chunks:
                return Plan(step.chunks, step.sequences, 1, growth)
        if not decodes.count:
            return self.plan(state, now) if preempted else NOTHING
        if preempted:
            return Plan((), (), 1, growth)
        ahead = decodes.steps_to_next_end()
        return Plan((), (), decodes.steps_within(state.usable_blocks - state.blocks, ahead), growth)

    def could_admit(self, state: BatchState) -> bool:
        """A slot and blocks for the head are free now; neither becomes free inside a plan."""
        if state.running >= self._max_running:
            return False
        budget = self._budget - state.decodes.count
        return state.blocks + self._admission_blocks(state.waiting[0], budget) <= state.usable_blocks

    def _admission_blocks(self, sequence: Sequence, reach: int) -> int:
        """Free blocks that admission asks for; `reach`: tokens computed when the first chunk is."""
        tokens = sequence.target if self._reserve_full_prompt else min(sequence.target, reach)
        return -(-tokens // self._block_size)

    def _continue_prefills(self, state: BatchState, step: _Step, now: float) -> bool:
        """Give running prompts their next chunks; True if one found no blocks and lost all it had."""
        size = self._block_size
        for sequence in tuple(state.prefilling):
            new = min(sequence.target - sequence.computed, step.budget)
            if new <= 0:
                break
            blocks = -(-(sequence.computed + new) // size) - -(-sequence.computed // size)
            while blocks > step.free:
                victim = state.prefilling[-1]
                step.free += -(-victim.computed // size)
                state.preempt(victim, now)
                if victim is sequence:
                    return True
            step.compute(state, sequence, new, blocks)
        return False

    def _admit(self, state: BatchState, step: _Step, growth: int, now: float) -> None:
        """Admit from the queue; `growth`: blocks that the decodes take in this step, before anybody admitted."""
        waiting, size = state.waiting, self._block_size
        slots = self._max_running - state.running
        while waiting and slots > 0 and step.budget > 0:
            sequence = waiting[0]
            cached = state.cached_blocks(sequence, growth) if sequence.kept is not None else 0
            if self._admission_blocks(sequence, cached * size + step.budget) > step.free:
                break
            waiting.popleft()
            if cached:
                state.claim(sequence, cached)
                step.free -= cached
                sequence.computed = cached * size
            slots -= 1
            sequence.admitted = state.admissions
            state.admissions += 1
            sequence.kept = None
            if sequence.preemptions == 0:
                sequence.scheduled = now
            state.prefilling.append(sequence)
            new = min(sequence.target - sequence.computed, step.budget)
            step.compute(state, sequence, new, -(-(sequence.computed + new) // size) - cached)

    def _preempt(self, state: BatchState, now: float) -> None:
        """Walk the running sequences in order; whoever finds no block takes it from the tail. The one slow path."""
        decodes = state.decodes
        order = [*decodes.members(), *state.prefilling]
        order.sort(key=lambda sequence: sequence.admitted)
        state.touched += len(order)
        growth = 0
        position = 0
        while position < len(order):
            sequence = order[position]
            position += 1
            if sequence.joined < 0 or not decodes.needs_block(sequence):
                continue
            while state.blocks + growth + 1 > state.usable_blocks:
                victim = order.pop()
                state.preempt(victim, now)
                if victim is sequence:
                    return
            growth += 1
