from __future__ import annotations

from heapq import heappop, heappush

from capsim.engine.decode_batch import NEVER, DecodeBatch
from capsim.engine.footprint import Footprint
from capsim.engine.sequence import Sequence


class HybridBatch(DecodeBatch):
    """Decoding sequences whose layers form several groups, some with a window or a state.

    Attributes:
        window: the sequences as windowed layers see them; None without such layers.

    Args:
        footprint: KV blocks that a sequence holds.
        keeps_spread: see `DecodeBatch`.
    """

    __slots__ = ("_footprint", "window")

    def __init__(self, footprint: Footprint, keeps_spread: bool = False) -> None:
        super().__init__(footprint.block_size, keeps_spread)
        self._footprint = footprint
        self.window = DecodeWindow(footprint) if footprint.windowed else None

    def join(self, sequence: Sequence) -> None:
        """Begin to decode after `sequence.target` computed tokens."""
        super().join(sequence)
        if self.window is not None:
            self.window.join(sequence)

    def leave(self, sequence: Sequence) -> int:
        """Stop decoding at this step boundary and return the KV blocks that the sequence held."""
        if self.window is not None:
            self.window.leave(sequence, self.step)
        length = sequence.target + self.step - sequence.joined
        super().leave(sequence)
        return self._footprint.blocks(length)

    def advance(self, steps: int) -> int:
        """Take `steps` steps; returns how many KV blocks were left behind by a window."""
        freed = 0 if self.window is None else self.window.advance(self.step, steps)
        return freed + super().advance(steps)

    def blocks_in(self, steps: int) -> int:
        """KV blocks that the next `steps` steps take; what windows free is not deducted."""
        return self._footprint.growing * super().blocks_in(steps)

    def freed_in(self, steps: int) -> int:
        """KV blocks that windows free at the ends of the next `steps` steps."""
        return self.window.freed_in(self.step, steps) if self.window is not None and steps else 0

    def steps_within(self, blocks: int, limit: int) -> int:
        """Most steps, at most `limit`, that take at most `blocks` KV blocks."""
        growing = self._footprint.growing
        return super().steps_within(blocks // growing, limit) if growing else limit

    def blocks_needed(self, sequence: Sequence) -> int:
        """KV blocks that this member takes in the next step."""
        return self._footprint.growing * super().blocks_needed(sequence)


class DecodeWindow:
    """The decoding sequences of a replica as windowed layers see them: as sums, whatever their number.

    A sequence fills the window at the step boundary at which its next context is as long as the window. From then on
    its context there stays the same, and it frees a block in each of the steps that end a whole number of blocks
    later: a phase, kept in a histogram.

    Attributes:
        context: sum of the contexts in the next step, each at most the window, the new token included.
        filling: sequences that do not fill the window yet.
    """

    __slots__ = ("_coming", "_footprint", "_phases", "context", "filling")

    def __init__(self, footprint: Footprint) -> None:
        self._footprint = footprint
        self._phases = [0] * footprint.block_size
        self._coming: list[tuple[int, int, int, Sequence]] = []
        self.context = self.filling = 0

    def join(self, sequence: Sequence) -> None:
        """A sequence begins to decode at step ``sequence.joined``."""
        full = self._full_at(sequence)
        if full <= sequence.joined:
            self._phases[full % len(self._phases)] += 1
            self.context += self._footprint.window
        else:
            heappush(self._coming, (full, sequence.admitted, sequence.joined, sequence))
            self.filling += 1
            self.context += sequence.target + 1

    def leave(self, sequence: Sequence, step: int) -> None:
        """A sequence stops to decode at a step boundary; its entry among those to come goes stale."""
        full = self._full_at(sequence)
        if full <= step:
            self._phases[full % len(self._phases)] -= 1
            self.context -= self._footprint.window
        else:
            self.filling -= 1
            self.context -= sequence.target + step - sequence.joined + 1

    def advance(self, step: int, steps: int) -> int:
        """Take `steps` steps from `step` on; returns the blocks freed at their ends."""
        freed = self._freed_by_full(step, steps)
        end, size = step + steps, len(self._phases)
        self.context += steps * self.filling
        coming = self._coming
        while coming and coming[0][0] <= end:
            full, _, joined, sequence = heappop(coming)
            if sequence.joined == joined:
                freed += (end - full) // size
                self._phases[full % size] += 1
                self.filling -= 1
                self.context -= end - full
        return freed * self._footprint.windowed

    def freed_in(self, step: int, steps: int) -> int:
        """Blocks that `advance` would return."""
        freed, end = self._freed_by_full(step, steps), step + steps
        for full, _, joined, sequence in self._coming:
            if full < end and sequence.joined == joined:
                freed += (end - full) // len(self._phases)
        return freed * self._footprint.windowed

    def steps_to_next_full(self, step: int) -> int:
        """Steps until a sequence fills the window."""
        coming = self._coming
        while coming and coming[0][3].joined != coming[0][2]:
            heappop(coming)
        return coming[0][0] - step if coming else NEVER

    def _full_at(self, sequence: Sequence) -> int:
        return sequence.joined - (sequence.target - self._footprint.window + 1)

    def _freed_by_full(self, step: int, steps: int) -> int:
        """Blocks that sequences which fill the window free at the ends of the steps, in one group."""
        phases, size = self._phases, len(self._phases)
        cycles, rest = divmod(steps, size)
        freed = cycles * sum(phases) if cycles else 0
        first = (step + 1) % size
        stop = first + rest
        freed += sum(phases[first:stop])
        return freed + sum(phases[: stop - size]) if stop > size else freed
