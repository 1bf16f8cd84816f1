from __future__ import annotations

from heapq import heappop, heappush

from capsim.engine.sequence import Sequence

NEVER = 1 << 60
"""A step that does not come."""


class DecodeBatch:
    """The decoding sequences of a replica as sums, so that a step costs the same for one and for a thousand.

    Every decoding sequence gains one token in every step. It needs a new KV block in the steps s at which its length
    before the step is a whole number of blocks, so s modulo `block_size` is fixed when it joins: its phase. A
    histogram of phases tells how many blocks any number of future steps will take.

    Attributes:
        step: steps taken since the replica started.
        count: decoding sequences.
        context: sum of their contexts in the next step, the new token included, tokens.
        squared_context: sum of their squares; kept only where the spread is.
        next_end: no member generates its last token before this step.

    Args:
        block_size: tokens in a KV block.
        keeps_spread: whether unequal contexts matter to the step cost; it takes some time to know them.
    """

    __slots__ = (
        "_ends",
        "_keeps_spread",
        "_longest",
        "_phases",
        "block_size",
        "context",
        "count",
        "next_end",
        "squared_context",
        "step",
    )

    def __init__(self, block_size: int, keeps_spread: bool = False) -> None:
        self.block_size = block_size
        self.step = self.count = self.context = self.squared_context = 0
        self.next_end = NEVER
        self._keeps_spread = keeps_spread
        self._longest: list[tuple[int, int, int, Sequence]] = []
        self._phases = [0] * block_size
        self._ends: list[tuple[int, int, Sequence]] = []

    def join(self, sequence: Sequence) -> None:
        """Begin to decode after `sequence.target` computed tokens."""
        sequence.joined = step = self.step
        sequence.end_step = end = step + sequence.output - sequence.generated
        self.count += 1
        self.context += sequence.target + 1
        self._phases[(step - sequence.target) % self.block_size] += 1
        heappush(self._ends, (end, sequence.admitted, sequence))
        self.next_end = min(self.next_end, end)
        if self._keeps_spread:
            self.squared_context += (sequence.target + 1) ** 2
            heappush(self._longest, (step - sequence.target, sequence.admitted, step, sequence))

    def leave(self, sequence: Sequence) -> int:
        """Stop decoding at this step boundary and return the KV blocks that the sequence held.

        Its entry among the ends goes stale and is dropped when it surfaces.
        """
        steps = self.step - sequence.joined
        length = sequence.target + steps
        sequence.generated += steps
        self.count -= 1
        self.context -= length + 1
        if self._keeps_spread:
            self.squared_context -= (length + 1) ** 2
        self._phases[(sequence.joined - sequence.target) % self.block_size] -= 1
        sequence.joined = sequence.end_step = -1
        return -(-length // self.block_size)

    def advance(self, steps: int) -> int:
        """Take `steps` steps; returns how many KV blocks the members freed: none, as long as they see everything."""
        if self._keeps_spread:
            self.squared_context += 2 * steps * self.context + steps * steps * self.count
        self.step += steps
        self.context += steps * self.count
        return 0

    def pop_finished(self) -> Sequence | None:
        """A sequence that generated its last token in the step just taken, None when there is no more."""
        ends = self._ends
        while ends and ends[0][0] <= self.step:
            end, _, sequence = heappop(ends)
            if sequence.end_step == end:
                return sequence
        self.next_end = ends[0][0] if ends else NEVER
        return None

    def steps_to_next_end(self) -> int:
        """Steps until a sequence generates its last token; the batch must not be empty."""
        ends = self._ends
        while ends[0][2].end_step != ends[0][0]:
            heappop(ends)
        return ends[0][0] - self.step

    def blocks_in(self, steps: int) -> int:
        """KV blocks that the next `steps` steps take if nobody joins or leaves; what members free is not deducted."""
        phases, size = self._phases, self.block_size
        start = self.step % size
        if steps == 1:
            return phases[start]
        cycles, rest = divmod(steps, size)
        stop = start + rest
        blocks = cycles * self.count + sum(phases[start:stop])
        return blocks + sum(phases[: stop - size]) if stop > size else blocks

    def freed_in(self, steps: int) -> int:  # noqa: ARG002
        """KV blocks that the members free at the ends of the next `steps` steps: none."""
        return 0

    def steps_within(self, blocks: int, limit: int) -> int:
        """Most steps, at most `limit`, that take at most `blocks` KV blocks."""
        taken = DecodeBatch.blocks_in  # of one block table, whatever a subclass makes of it
        if (limit // self.block_size + 1) * self.count <= blocks or taken(self, limit) <= blocks:
            return limit
        low, high = 0, limit
        while high - low > 1:
            middle = (low + high) // 2
            if taken(self, middle) <= blocks:
                low = middle
            else:
                high = middle
        return low

    def members(self) -> list[Sequence]:
        """The decoding sequences in running order. Touches them all: for preemption and observation only."""
        # Who resumes with the very step after its preemption ends as before: then its stale entry looks alive, too.
        alive = {entry[2] for entry in self._ends if entry[2].end_step == entry[0]}
        return sorted(alive, key=lambda sequence: sequence.admitted)

    def blocks_needed(self, sequence: Sequence) -> int:
        """KV blocks that this member takes in the next step."""
        return 0 if (sequence.target + self.step - sequence.joined) % self.block_size else 1

    def largest_context(self) -> int:
        """The longest context in the next step, 0 without decodes; only where the spread is kept.

        All contexts grow alike, so the longest stays the longest: a heap by how long a sequence was when it joined.
        """
        longest = self._longest
        while longest and longest[0][3].joined != longest[0][2]:
            heappop(longest)
        return self.step - longest[0][0] + 1 if longest else 0
