from __future__ import annotations

import math
from typing import Protocol

from capsim.cost.shape import Chunk
from capsim.engine.batch_state import BatchState, Parts
from capsim.engine.block_pool import MISS
from capsim.engine.configuration import EngineConfiguration
from capsim.engine.plan import Plan
from capsim.engine.prefix_cache import Hit
from capsim.engine.sequence import Sequence
from capsim.engine.walk import Walk
from capsim.errors import Infeasible

TIE = 1e-9
"""Seconds: what happens this close after a step boundary counts as present at it."""
MARGIN = 1000
"""Plans that preempt in vain, beyond those that slow prompts explain: arrivals of a higher priority cause some more."""

NOWHERE: Parts = []
NOTHING = Plan((), (), 0, 0)


class Scheduler(Protocol):
    """Chooses the batch. A policy is right with plans of 1 step before it is fast with longer ones."""

    def plan(self, state: BatchState, now: float) -> Plan:
        """Choose the next batch at a step boundary and change the queues accordingly."""

    def could_admit(self, state: BatchState, sequence: Sequence) -> bool:
        """Whether a sequence before which none waits might be admitted at a step boundary inside the current plan."""


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
        state.pool.take(blocks)
        if sequence.run is not None:
            state.pool.schedule(sequence, sequence.computed + new)
        self.chunks.append(Chunk(new, sequence.computed))
        self.sequences.append(sequence)


class VllmScheduler:
    """vLLM V1: running sequences first, then the queue in order of arrival or priority, under one token budget.

    - Each decode takes one token of `max_num_batched_tokens`; unfinished prompts take what is left (chunked prefill),
      then waiting sequences are admitted while budget, `max_num_seqs` and KV blocks allow. The head of the queue
      blocks those behind it. With `long_prefill_token_threshold` a prompt takes no more than that of a step, so that
      several can be half computed.
    - Admission asks for free blocks for the whole prompt but takes them chunk by chunk, so that decodes which grow in
      between can leave a half-computed prompt short of blocks.
    - When a running sequence needs a block and none is free, the last admitted one loses all its blocks and goes to
      the front of the queue (by priority: the one of the largest rank, to its place in the queue); nothing is admitted
      in that step; later it computes prompt and generated tokens again.
    - With prefix caching an admitted sequence finds its leading full blocks, its own of before a preemption and those
      of prompts that begin alike, as far as nobody took them, and computes the rest, at least its last token.

    Behaviour of vLLM 0.19 (``vllm/v1/core/sched/scheduler.py``, ``kv_cache_manager.py``).
    """

    def __init__(self, configuration: EngineConfiguration) -> None:
        self._configuration = configuration
        self._budget = configuration.max_num_batched_tokens
        self._longest_chunk = configuration.longest_chunk
        self._by_priority = configuration.by_priority
        self._max_running = configuration.max_num_seqs
        self._footprint = configuration.footprint
        self._plain = configuration.footprint.plain
        self._block_size = configuration.block_size
        self._reserve_full_prompt = configuration.reserve_full_prompt
        self._watermark = configuration.watermark_blocks
        self._most_in_vain = MARGIN + configuration.usable_blocks * configuration.block_size
        self._offloads = bool(configuration.tiers)
        # Windows free blocks while sequences decode. Where a tier is asked for what the GPU no longer has, loading it
        # may take less room than the first chunk that was looked for before.
        loads_less = self._offloads and not self._reserve_full_prompt
        self._may_admit_inside = configuration.footprint.windowed > 0 or loads_less

    def plan(self, state: BatchState, now: float) -> Plan:
        """The next batch; decodes alone hold until one ends or the KV pool runs dry."""
        decodes, pool = state.decodes, state.pool
        growth = decodes.blocks_in(1)
        free = pool.usable - pool.held - growth
        preempted = False
        if free < 0 or state.prefilling or state.waiting:
            step = _Step(self._budget - decodes.count, free)
            if free < 0 or (state.prefilling and not self._continue_prefills(state, step)):
                walk = Walk(self._configuration, state, self._taken)
                walk.run(now)
                growth, preempted = walk.growth, walk.preempted
                if preempted:
                    self._count_in_vain(state)
                step = self._step_of(state, walk)
            if state.waiting and not preempted:
                self._admit(state, step, growth, now)
            if step.chunks:
                return Plan(step.chunks, step.sequences, 1, growth)
        if not decodes.count:
            return self.plan(state, now) if preempted or self._unlock(state, now) else NOTHING
        if preempted:
            return Plan((), (), 1, growth)
        ahead = 1 if state.waiting and self._may_admit_next(state) else decodes.steps_to_next_end()
        return Plan((), (), decodes.steps_within(pool.usable - pool.held, ahead), growth)

    def _count_in_vain(self, state: BatchState) -> None:
        """Tell sequences that take each other's blocks for ever from those that get on.

        Each prompt that completes and each decode is a token, of which there are so many. In between, the first prompt
        gains one token a step at the least, up to what the KV cache holds.

        Raises:
            Infeasible: they have not got on for longer than that.
        """
        state.in_vain = 0 if state.decodes.count else state.in_vain + 1
        if state.in_vain > self._most_in_vain:
            raise Infeasible(
                f"the engine gets no further: {state.in_vain:,} times one after another sequences took each other's KV "
                f"blocks, {state.pool.usable:,} in all, before any of them had its next token",
                (
                    "more KV blocks",
                    "scheduler_reserve_full_isl: true, so that a prompt starts only where all of it fits",
                    "no long_prefill_token_threshold, so that one prompt is computed at a time",
                    "no KV offload: waiting sequences hold the blocks that they load",
                ),
            )

    def _may_admit_next(self, state: BatchState) -> bool:
        """Whether the next step may admit somebody whom this one could not, though nobody ends in between."""
        unseen = state.leaving or state.last_arrival > state.seen_until + TIE
        return bool(unseen) or (self._may_admit_inside and state.running < self._max_running)

    def _unlock(self, state: BatchState, now: float) -> bool:
        """Where nothing runs and loaded blocks leave no room for a prompt, take back those last in the queue."""
        if not state.loading or state.next_loaded(now + TIE) < math.inf:
            return False
        state.give_up(next(sequence for sequence in reversed(state.waiting) if sequence.ready >= 0))
        return True

    def could_admit(self, state: BatchState, sequence: Sequence) -> bool:
        """Whether a slot and blocks for the sequence are free now: neither becomes free inside a plan, as a rule."""
        if state.running >= self._max_running:
            return False
        if self._may_admit_inside:
            return True
        hit = state.pool.find(sequence, 0) if sequence.path else MISS
        chunk = min(self._budget - state.decodes.count, self._longest_chunk)
        reach = hit.blocks * self._block_size + chunk
        asked = self._admission_blocks(sequence, hit, reach)
        return state.pool.held + asked <= state.pool.usable

    def _admission_blocks(self, sequence: Sequence, hit: Hit, reach: int) -> int:
        """Free blocks that admission asks for, those included that were found free and will be no more.

        Args:
            sequence: at the head of the queue.
            hit: what was found of it.
            reach: tokens that are there once its first chunk is computed or its blocks are loaded.
        """
        tokens = sequence.target if self._reserve_full_prompt else min(sequence.target, reach)
        if self._plain:
            return -(-tokens // self._block_size) - hit.blocks + hit.free
        return self._footprint.peak(tokens, self._budget)

    def _taken(self, before: int, after: int) -> int:
        """Blocks taken to compute a sequence's tokens from `before` to `after`."""
        if self._plain:
            return -(-after // self._block_size) + -before // self._block_size
        return self._footprint.taken(before, after)

    def _continue_prefills(self, state: BatchState, step: _Step) -> bool:
        """Give running prompts their next chunks, in running order; False, with nothing done, if that takes a walk.

        The decodes have their tokens first, wherever they stand: there is one for each, since what stands before it
        takes no more than in the step that completed its prompt. Only a victim that gave tokens back in that step
        breaks this.
        """
        if state.prefilling[0].admitted < state.uneven:
            return False
        chunks = []
        budget, free = step.budget, step.free
        for sequence in state.prefilling:
            if budget <= 0:
                break
            new = min(sequence.target - sequence.computed, self._longest_chunk, budget)
            blocks = self._taken(sequence.computed, sequence.computed + new)
            chunks.append((sequence, new, blocks))
            budget -= new
            free -= blocks
        if free < 0:
            return False
        for sequence, new, blocks in chunks:
            step.compute(state, sequence, new, blocks)
        return True

    def _step_of(self, state: BatchState, walk: Walk) -> _Step:
        """The step as a walk planned it."""
        if walk.preempted and self._by_priority:
            state.uneven = state.admissions
        prompts = sum(new for _, new, _ in walk.chunks)
        step = _Step(walk.budget + prompts, state.pool.usable - state.pool.held - walk.growth)
        for sequence, new, blocks in walk.chunks:
            step.compute(state, sequence, new, blocks)
        return step

    def _admit(self, state: BatchState, step: _Step, growth: int, now: float) -> None:
        """Admit from the queue; `growth`: blocks that the decodes take in this step, before anybody admitted."""
        waiting = state.waiting
        slots = self._max_running - state.running - len(state.leaving)
        position = 0
        while position < len(waiting) and slots > 0 and step.budget > 0:
            sequence = waiting[position]
            if sequence.submitted > state.seen_until + TIE:
                if not self._by_priority:
                    break
                position += 1
                continue
            hit = MISS
            if sequence.path or sequence.kept or self._offloads:
                if sequence.ready > now + TIE:
                    position += 1
                    continue
                hit = self._find(state, sequence, growth)
            parts = self._find_offloaded(state, sequence, hit) if self._offloads else NOWHERE
            loaded = sum(blocks for _, blocks in parts) if parts else 0
            most = step.budget if step.budget < self._longest_chunk else self._longest_chunk
            reach = (hit.blocks + loaded) * self._block_size + (0 if parts else most)
            asked = self._admission_blocks(sequence, hit, reach)
            if asked > step.free or (self._watermark and self._too_little(state, step.free - asked)):
                break
            step.free -= hit.free + loaded
            if parts:
                state.load(sequence, hit, parts, now)
                position += 1
                continue
            state.admit(sequence, hit, position, now)
            slots -= 1
            computed = sequence.computed
            new = min(sequence.target - computed, most)
            step.compute(state, sequence, new, self._taken(computed, computed + new))

    def _too_little(self, state: BatchState, left: int) -> bool:
        """Whether an admission that leaves so many blocks free breaks the watermark, which holds while anybody runs."""
        return left < self._watermark and (state.running > 0 or bool(state.leaving))

    def _find(self, state: BatchState, sequence: Sequence, growth: int) -> Hit:
        """What the KV pool holds of a waiting sequence; one whose blocks are loaded holds them already."""
        if sequence.ready >= 0:
            return Hit([], sequence.computed // self._block_size, 0)
        return state.pool.find(sequence, growth) if sequence.path or sequence.kept else MISS

    def _find_offloaded(self, state: BatchState, sequence: Sequence, hit: Hit) -> Parts:
        """What tiers hold of it beyond that."""
        if state.offload is None or sequence.ready >= 0:
            return NOWHERE
        return state.offload.find(sequence, hit.blocks)
