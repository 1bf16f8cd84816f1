from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from capsim.engine import Sequence
from capsim.fleet.log import Floats, Integers, Outcome
from capsim.workload.requests import Requests

MOST_ENDED = 4096
"""Requests that have ended and are still there as objects, not yet as rows."""


def scalars(column: NDArray[Any]) -> memoryview[Any]:
    """A column of shape (n,), without a copy, that is read and written one number at a time as Python's own."""
    return memoryview(column)  # type: ignore[arg-type]  # a buffer, which types can say from Python 3.12 on only


class _Attempt:
    """A request on a replica: its sequences, and how many of them have not ended."""

    __slots__ = ("sequences", "unfinished")

    def __init__(self, sequences: list[Sequence]) -> None:
        self.sequences = sequences
        self.unfinished = len(sequences)


class RequestRecord:
    """What becomes of each request: a row of columns, and objects only while it is on a replica.

    Attributes:
        arrival, attempts, replica, outcome: see `capsim.fleet.log.RequestColumns`; whoever runs the simulation writes
            them row by row.
        times: `submitted`, `scheduled`, `first_token`, `finish` and `service`, shape (n,) each.
        counts: `cached`, `loaded`, `found`, `recomputed` and `preemptions`, shape (n,) each.
    """

    def __init__(self, requests: Requests) -> None:
        count = len(requests)
        self.arrival: Floats = np.array(requests.arrival, np.float64)
        self.attempts: Integers = np.zeros(count, np.int64)
        self.replica: Integers = np.full(count, -1, np.int64)
        self.outcome: Integers = np.full(count, int(Outcome.COMPLETED), np.int64)
        times = ("submitted", "scheduled", "first_token", "finish", "service")
        self.times: dict[str, Floats] = {name: np.full(count, np.nan) for name in times}
        counts = ("cached", "loaded", "found", "recomputed", "preemptions")
        self.counts: dict[str, Integers] = {name: np.zeros(count, np.int64) for name in counts}
        self._samples = requests.samples
        self._attempts: dict[int, _Attempt] = {}
        self._ended: list[list[Sequence]] = []

    def begin(self, row: int, sequences: list[Sequence]) -> None:
        """A request was handed to a replica; an earlier attempt is forgotten."""
        self._attempts[row] = _Attempt(sequences)

    def sequences(self, row: int) -> list[Sequence]:
        """Those of a request that is on a replica."""
        return self._attempts[row].sequences

    def end(self, sequence: Sequence) -> bool:
        """A sequence generated its last token; whether its request has ended with it.

        It has not where others of the request go on, or were lost: then the request has another attempt.
        """
        row = sequence.request
        attempt = self._attempts.get(row)
        if attempt is None or sequence not in attempt.sequences:
            return False
        attempt.unfinished -= 1
        if attempt.unfinished:
            return False
        self._ended.append(attempt.sequences)
        del self._attempts[row]
        if len(self._ended) >= MOST_ENDED:
            self._write()
        return True

    def close(self) -> None:
        """Write all that is still there as objects: of requests that ended, and of those that never did."""
        self._ended += [attempt.sequences for attempt in self._attempts.values()]
        self._attempts.clear()
        self._write()

    def _write(self) -> None:
        """Turn the requests that have ended into rows."""
        rows = [sequences[0].request for sequences in self._ended]
        every = [sequence for sequences in self._ended for sequence in sequences]
        shape = (len(rows), self._samples)

        def of(name: str) -> Floats:
            return np.array([getattr(sequence, name) for sequence in every], np.float64).reshape(shape)

        scheduled, finish = of("scheduled"), of("finish")
        self.times["scheduled"][rows] = scheduled.min(axis=1)
        self.times["finish"][rows] = finish.max(axis=1)
        self.times["service"][rows] = (finish - scheduled).sum(axis=1)
        for name in ("submitted", "first_token"):
            self.times[name][rows] = of(name).min(axis=1)
        for name, column in self.counts.items():
            numbers = np.array([getattr(sequence, name) for sequence in every], np.int64)
            column[rows] = numbers.reshape(shape).sum(axis=1)
        self._ended.clear()
