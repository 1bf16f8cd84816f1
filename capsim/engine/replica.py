from __future__ import annotations

import math
from collections.abc import Sequence as Many

from capsim.cost.shape import BatchShape, Chunk
from capsim.cost.step import Line, StepCost
from capsim.engine.batch_state import BatchState
from capsim.engine.configuration import EngineConfiguration
from capsim.engine.hybrid_batch import HybridBatch
from capsim.engine.leap import BUFFER, LeapRecord, pack_leap
from capsim.engine.observation import Observation
from capsim.engine.offload import OffloadTier
from capsim.engine.plan import Plan
from capsim.engine.scheduler import NOTHING, TIE, Scheduler, VllmScheduler
from capsim.engine.sequence import Sequence


class Replica:
    """One engine on its GPUs, told the time from outside; time never goes back.

    A decision is taken lazily, once the clock is past the boundary it belongs to, so that everything that happens at
    that instant has been told. `advance` commits whole plans that end by a time; `submit` and `abort` cut the plan in
    flight at the first step boundary from then on.

    Attributes:
        finished: sequences that ended since the caller last emptied the list.
        plans: decisions taken, a measure of the work done.
        resumed_gaps: seconds between the tokens on both sides of a preemption.
        lost_tokens: tokens generated for sequences that were aborted or lost.
        lost_first_tokens: how many of them were first tokens.
    """

    def __init__(
        self,
        configuration: EngineConfiguration,
        cost: StepCost,
        scheduler: Scheduler | None = None,
        longest_plan: int | None = None,
    ) -> None:
        self.configuration = configuration
        self.finished: list[Sequence] = []
        self.plans = self.lost_tokens = self.lost_first_tokens = 0
        self.resumed_gaps: list[float] = []
        self._footprint = configuration.footprint
        self._offloads = bool(configuration.tiers)
        self._windowed = configuration.footprint.windowed > 0
        self._cost = cost
        self._ahead = int(configuration.async_scheduling)
        self._spread = cost.needs_spread
        self._mingles = configuration.long_prefill_token_threshold > 0
        self._scheduler = scheduler or VllmScheduler(configuration)
        self._longest_plan = longest_plan
        self._state = BatchState(configuration, cost.needs_spread)
        decodes = self._state.decodes
        self._window = decodes.window if isinstance(decodes, HybridBatch) and cost.needs_window else None
        self._plain_shape = not self._spread and self._window is None
        self._aborts: list[Sequence] = []
        self._leaps = bytearray()
        self._record = LeapRecord(configuration.footprint)
        self._now = 0.0
        self._plan: Plan = NOTHING
        self._line = Line(0.0, 0.0, 0)
        self._steps = 0
        self._end = math.inf
        self._idle = False  # nothing can be done before the next read from a tier ends

    # What can be asked

    @property
    def outstanding(self) -> int:
        """Sequences submitted and not ended, as of the last advance."""
        return self._state.running + len(self._state.waiting)

    @property
    def blocks(self) -> int:
        """KV blocks held, as of the last advance."""
        return self._state.pool.held

    @property
    def evicted(self) -> int:
        """KV blocks taken so far while somebody could still have asked for their content."""
        return self._state.pool.evicted

    @property
    def tiers(self) -> list[OffloadTier]:
        """Where KV is offloaded to, with what each tier did so far."""
        return [] if self._state.offload is None else self._state.offload.tiers

    @property
    def touched(self) -> int:
        """Sequences handled one by one so far: chunks, ends, walks of a preemption. A measure of the work done."""
        return self._state.touched

    def next_completion(self) -> float:
        """No sequence ends before this time, seconds, unless something is submitted or aborted; infinite if idle."""
        if self._steps:
            return self._end
        if self._idle or self._state.empty:
            return self._state.next_loaded(self._now + TIE) + 2 * TIE
        return self._now + 2 * TIE

    def observe(self, time: float) -> Observation:
        """State at the last step boundary at or before `time`; the plan in flight is not cut."""
        self.advance(time)
        state, decodes = self._state, self._state.decodes
        steps = self._steps_done(time)
        boundary = self._now + self._line.total(steps) if steps else self._now
        in_flight = 1 if self._steps and time > boundary + TIE else 0
        return Observation(
            time=time if state.empty else boundary,
            running=state.running,
            waiting=len(state.waiting),
            blocks=state.pool.held + decodes.blocks_in(steps + in_flight) - decodes.freed_in(steps),
            context=decodes.context + steps * decodes.count,
        )

    def leaps(self) -> LeapRecord:
        """The leaps taken so far."""
        self._record.keep(self._leaps)
        return self._record

    # What can happen

    def advance(self, until: float) -> None:
        """Commit every plan that ends by `until`."""
        while True:
            if not self._steps:
                if until <= self._now + TIE:
                    return
                if not self._decide():
                    wake = self._state.next_loaded(self._now + TIE)
                    self._idle = wake >= until
                    if self._idle:
                        return
                    self._now = wake
                    continue
            if self._end > until:
                return
            self._commit()

    def submit(self, sequence: Sequence, time: float) -> None:
        """Let a sequence join the queue at `time`."""
        self.advance(time)
        state = self._state
        if not self._steps:
            if time > self._now + TIE or state.empty:
                self._now = max(time, self._now)  # it idles, and nobody else can begin before
            self._idle = False
            state.enqueue(sequence)
            return
        position = state.enqueue(sequence)
        if self._steps > 1 and state.leads(position) and self._scheduler.could_admit(state, sequence):
            self._cut(time)

    def abort(self, sequence: Sequence, time: float) -> None:
        """Drop a sequence at the first step boundary at or after `time`; one that has ended stays ended."""
        self.advance(time)
        if self._steps:
            self._cut(time)
            self._aborts.append(sequence)
        else:
            self._idle = False
            self._drop(sequence)

    def drain(self, time: float) -> list[Sequence]:
        """Take back the sequences that have never been scheduled; the others run to their end."""
        self.advance(time)
        waiting = self._state.waiting
        untouched = [sequence for sequence in waiting if math.isnan(sequence.scheduled)]
        started = [sequence for sequence in waiting if not math.isnan(sequence.scheduled)]
        waiting.clear()
        waiting.extend(started)
        for sequence in untouched:
            self._state.give_up(sequence)
        if self._steps > 1:
            self._cut(time)
        return untouched

    def fail(self, time: float) -> list[Sequence]:
        """Die at `time`: the step in flight is lost with all KV; returns every sequence that had not ended."""
        self.advance(time)
        steps = self._steps_done(time)
        if steps:
            self._shorten(steps)
            self._commit()
        if self._steps:
            for sequence, chunk in zip(self._plan.sequences, self._plan.chunks, strict=True):
                sequence.computed += chunk.new  # its blocks are held already
                self._state.pool.free(self._footprint.freed(chunk.past, sequence.computed))
        self._plan, self._steps, self._end = NOTHING, 0, math.inf
        self._drop_aborted()
        state = self._state
        state.let_go()
        lost = [*state.decodes.members(), *state.prefilling, *state.waiting]
        for sequence in lost:
            self._drop(sequence)
        state.clear()
        self._now = time
        return lost

    # How a plan is made and carried out

    def _decide(self) -> bool:
        """Plan from the current boundary; False if there is nothing to do."""
        state = self._state
        plan = self._plan = self._scheduler.plan(state, self._now)
        if self._ahead:
            plan = self._plan = self._know_all(plan)
        steps = plan.steps
        if not steps:
            return False
        self.plans += 1
        if plan.chunks:
            seconds = self._cost.step(self._shape(plan.chunks))
            self._line = Line(seconds, 0.0, 1)
            self._steps = 1
            self._end = self._now + seconds
            return True
        line = self._line = self._cost.line(self._shape(()))
        steps = min(steps, line.steps)
        if self._window is not None:
            steps = min(steps, self._window.steps_to_next_full(state.decodes.step) + 1)
        if state.loading:
            wake = state.next_loaded(self._now + TIE)
            if wake < math.inf:
                steps = min(steps, line.steps_until(wake - TIE - self._now))
        if self._longest_plan is not None:
            steps = min(steps, self._longest_plan)
        self._steps = steps
        self._end = self._now + line.total(steps)
        return True

    def _know_all(self, plan: Plan) -> Plan:
        """Catch up with what this plan, made one step ahead, did not know; without work for it, plan again at once."""
        state = self._state
        state.let_go()
        if plan.steps:
            return plan
        state.seen_until = math.inf
        return self._scheduler.plan(state, self._now)

    def _shape(self, chunks: Many[Chunk]) -> BatchShape:
        decodes = self._state.decodes
        shape = BatchShape(chunks, decodes.count, decodes.context)
        if self._plain_shape:
            return shape
        if self._spread:
            longest = decodes.largest_context()
            shape = shape._replace(squared_context=decodes.squared_context, largest_context=longest)
        if self._window is not None:
            shape = shape._replace(windowed_context=self._window.context, filling=self._window.filling)
        return shape

    def _cut(self, time: float) -> None:
        """End the plan in flight at the first step boundary whose plan can know of what happens at `time`."""
        if self._steps > 1:
            steps = self._line.steps_until(time - TIE - self._now) + self._ahead
            self._shorten(min(steps, self._steps))

    def _shorten(self, steps: int) -> None:
        if steps < self._steps:
            self._steps = steps
            self._end = self._now + self._line.total(steps)

    def _steps_done(self, time: float) -> int:
        """Steps of the plan in flight that have ended by `time`."""
        if self._steps <= 1:
            return 0
        done = self._line.steps_until(time - self._now)
        return done if self._now + self._line.total(done) <= time else done - 1

    def _commit(self) -> None:
        """Carry out the plan in flight up to its end."""
        state, steps, line = self._state, self._steps, self._line
        chunks, _, _, growth = self._plan
        decodes = state.decodes
        blocks = growth if steps == 1 else decodes.blocks_in(steps)
        tokens = past = 0
        if chunks:
            for new, before in chunks:
                tokens += new
                past += before
        idle = self._tokens_left_out(past) if len(state.prefilling) > len(chunks) else 0
        self._leaps += pack_leap(
            self._now,
            steps,
            tokens,
            len(chunks),
            past,
            decodes.count,
            decodes.context,
            decodes.count + len(state.prefilling),
            len(state.waiting),
            state.pool.held + growth,
            line.first,
            line.slope,
            blocks - growth,
            state.pool.repeated * self.configuration.block_size - idle,
        )
        if len(self._leaps) >= BUFFER:
            self._record.keep(self._leaps)
        if self._ahead:
            state.seen_until = self._now + (line.total(steps - 1) if steps > 1 else 0.0)
        now = self._now = self._end
        self._steps = 0
        freed = decodes.advance(steps)
        if blocks:
            state.pool.take(blocks)
        if freed:
            state.pool.free(freed)
        mingled = self._mingles and bool(chunks)
        if decodes.next_end <= decodes.step:
            self._end_sequences(now, together=mingled or self._ahead > 0)
        if chunks:
            self._compute_chunks(now)
        if state.leaving:
            if mingled:  # prompts may stand between decodes, and all end in running order
                state.leaving.sort(key=lambda ended: ended[0].admitted)
            if not self._ahead:
                state.let_go()
        if self._aborts:
            self._drop_aborted()

    def _compute_chunks(self, now: float) -> None:
        """Count what the step computed of prompts; the tokens of those that are complete appear."""
        pool = self._state.pool
        self._state.touched += len(self._plan.chunks)
        for sequence, (new, before) in zip(self._plan.sequences, self._plan.chunks, strict=True):
            sequence.computed += new
            if self._windowed:
                pool.free(self._footprint.freed(before, before + new))
            if sequence.computed == sequence.target:
                self._complete_prefill(sequence, now)

    def _tokens_left_out(self, past: int) -> int:
        """Tokens that running prompts which are no part of the step have computed; `past`: those of the others."""
        return sum(sequence.computed for sequence in self._state.prefilling) - past

    def _end_sequences(self, now: float, *, together: bool) -> None:
        """Take out the sequences that generated their last token in the step just taken.

        `together`: they let go of their blocks later, with others that end.
        """
        state, decodes = self._state, self._state.decodes
        while (ended := decodes.pop_finished()) is not None:
            state.touched += 1
            if together:
                computed = ended.target + decodes.step - ended.joined
                state.leaving.append((ended, decodes.leave(ended), computed))
            elif ended.path or ended.holds or self._offloads:
                state.release(ended)
            else:
                state.pool.free(decodes.leave(ended))
            self._finish(ended, now)

    def _complete_prefill(self, sequence: Sequence, now: float) -> None:
        """All that was owed is computed: a token appears, and the sequence decodes from the next step on."""
        state = self._state
        state.prefilling.remove(sequence)
        state.in_vain = 0
        if sequence.generated == 0:
            sequence.first_token = now
        else:
            self.resumed_gaps.append(now - sequence.last_token)
        sequence.generated += 1
        if sequence.generated == sequence.output:
            state.leaving.append((sequence, self._footprint.blocks(sequence.target), sequence.target))
            self._finish(sequence, now)
        else:
            state.decodes.join(sequence)

    def _finish(self, sequence: Sequence, now: float) -> None:
        sequence.finish = now
        self.finished.append(sequence)

    def _drop_aborted(self) -> None:
        for sequence in self._aborts:
            self._drop(sequence)
        self._aborts.clear()

    def _drop(self, sequence: Sequence) -> None:
        """Forget a sequence with its KV and its tokens; one that has ended, or is gone already, stays as it is."""
        state = self._state
        if sequence.joined >= 0 or sequence in state.prefilling:
            state.release(sequence)
        elif sequence in state.waiting:
            state.waiting.remove(sequence)
            state.give_up(sequence)
        else:
            return
        self.lost_tokens += sequence.generated
        self.lost_first_tokens += sequence.generated > 0
