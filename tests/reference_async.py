"""The plain replica of an engine that plans each step while the one before runs."""

from __future__ import annotations

from collections import deque

from tests.reference import TIE, ReferenceReplica, ReferenceSequence, Work


class AsyncReference(ReferenceReplica):
    """When a step begins, the next one is planned: as if the step had been taken, but for what it will free.

    A sequence whose last token is on its way is not planned for; it keeps its place and its blocks until the step ends.
    """

    def run(
        self, sequences: list[ReferenceSequence], aborts: list[tuple[float, ReferenceSequence]] | None = None
    ) -> None:
        """Serve sequences in order of arrival."""
        assert not aborts
        arrivals = deque(sequences)
        now = 0.0
        planned: Work = []
        started: set[ReferenceSequence] = set()
        while arrivals or self.waiting or self.running:
            if not planned:
                if not self.waiting and not self.running:
                    now = max(now, arrivals[0].arrival)
                self.receive(arrivals, now)
                planned = self.schedule(now)
            work = planned
            for sequence, _ in work:
                if sequence not in started:
                    started.add(sequence)
                    sequence.scheduled = now
            seconds = self.cost.step(self.shape(work))
            self.record(work, now, seconds)
            made = self.take_for_granted(work)
            self.receive(arrivals, now)
            planned = self.schedule(now)
            now += seconds
            for sequence, token in made:
                self.deliver(sequence, token, now)
        assert len(self.free) == self.usable

    def receive(self, arrivals: deque[ReferenceSequence], now: float) -> None:
        while arrivals and arrivals[0].arrival <= now + TIE:
            self.enqueue(arrivals.popleft())

    def take_for_granted(self, work: Work) -> list[tuple[ReferenceSequence, int]]:
        """Count what the step will compute; which sequences make a token, and which one of theirs."""
        made = []
        for sequence, new in work:
            sequence.computed += new
            if sequence.computed == sequence.tokens:
                self.in_vain = 0
                sequence.generated += 1
                sequence.decoding = True
                sequence.ending = sequence.generated == sequence.output
                made.append((sequence, sequence.generated))
        return made

    def deliver(self, sequence: ReferenceSequence, token: int, now: float) -> None:
        """A token is there."""
        sequence.token_times.append(now)
        if token == 1:
            sequence.first_token = now
        if token == sequence.output:
            sequence.finish = now
            self.write(sequence)
            self.release(sequence)
            self.running.remove(sequence)
