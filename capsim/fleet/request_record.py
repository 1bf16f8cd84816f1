from __future__ import annotations

from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capsim.engine import Sequence
from capsim.fleet.log import Counts, Floats, Integers, Outcome, Outcomes, RequestColumns
from capsim.workload.requests import Requests

TIMES = ("submitted", "scheduled", "first_token", "finish", "service")
COUNTS = ("cached", "loaded", "found", "recomputed", "preemptions")
"""See `capsim.fleet.log.RequestColumns`."""
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
            them row by row, but arrival only in a closed loop.

    Args:
        requests: what the clients send.
        closed: they send each request when another has ended, and not at its arrival time.
    """

    def __init__(self, requests: Requests, *, closed: bool) -> None:
        count = len(requests)
        self._requests = requests
        self.arrival: Floats = requests.arrival.copy() if closed else requests.arrival
        self.attempts: Counts = np.zeros(count, np.int32)
        self.replica: Counts = np.full(count, -1, np.int32)
        self.outcome: Outcomes = np.full(count, int(Outcome.COMPLETED), np.int8)
        self._times: dict[str, Floats] = {name: np.full(count, np.nan) for name in TIMES}
        self._counts: dict[str, Integers] = {name: np.zeros(count, np.int64) for name in COUNTS}
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

    def columns(self, held: Floats) -> RequestColumns:
        """All requests, those that never ended too; `held`: seconds in the gateway's queue, shape (n,)."""
        self._ended += [attempt.sequences for attempt in self._attempts.values()]
        self._attempts.clear()
        self._write()
        requests, served = self._requests, dict[str, Any](**self._times, **self._counts)
        return RequestColumns(
            arrival=self.arrival,
            held=held,
            prompt=requests.prompt,
            output=requests.output,
            priority=np.broadcast_to(np.int64(0), len(requests))
            if requests.priority is None
            else requests.priority,
            attempts=self.attempts,
            replica=self.replica,
            outcome=self.outcome,
            **served,
        )

    def _write(self) -> None:
        """Turn the requests that have ended into rows."""
        rows = [sequences[0].request for sequences in self._ended]
        every = [sequence for sequences in self._ended for sequence in sequences]
        shape = (len(rows), self._requests.samples)

        def of(name: str) -> Floats:
            return np.fromiter(map(attrgetter(name), every), np.float64, len(every)).reshape(shape)

        scheduled, finish = of("scheduled"), of("finish")
        self._times["scheduled"][rows] = scheduled.min(axis=1)
        self._times["finish"][rows] = finish.max(axis=1)
        self._times["service"][rows] = (finish - scheduled).sum(axis=1)
        for name in ("submitted", "first_token"):
            self._times[name][rows] = of(name).min(axis=1)
        for name, column in self._counts.items():
            numbers = np.fromiter(map(attrgetter(name), every), np.int64, len(every))
            if numbers.any():  # zeros that nobody wrote take no memory
                column[rows] = numbers.reshape(shape).sum(axis=1)
        self._ended.clear()
