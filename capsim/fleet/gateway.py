from __future__ import annotations

import math
from collections.abc import Sequence as Many
from heapq import heappop, heappush

from capsim.fleet.configuration import FlowControl


class Gateway:
    """One queue before all replicas: the smallest priority first, then the request that was sent first.

    A request that lost its replica keeps its place by the time at which it was sent.

    Attributes:
        waited: seconds that each request has waited here, over all its attempts.
    """

    def __init__(self, control: FlowControl, count: int, priorities: Many[int] | None) -> None:
        self._most = math.inf if control.queue is None else control.queue
        self._priorities = priorities
        self._waiting: list[tuple[int, int, float]] = []
        self.waited = [0.0] * count

    def __len__(self) -> int:
        return len(self._waiting)

    def hold(self, row: int, time: float) -> bool:
        """Let a request wait from `time` on; False where the queue is full."""
        if len(self._waiting) >= self._most:
            return False
        heappush(self._waiting, (0 if self._priorities is None else self._priorities[row], row, time))
        return True

    def release(self, time: float) -> int:
        """The request whose turn it is goes on at `time`."""
        _, row, since = heappop(self._waiting)
        self.waited[row] += max(0.0, time - since)
        return row

    def give_up(self) -> list[int]:
        """Take out all requests, in their order."""
        rows = [row for _, row, _ in sorted(self._waiting)]
        self._waiting.clear()
        return rows
