from __future__ import annotations

import math
from collections.abc import Callable
from collections.abc import Sequence as Many
from heapq import heappop, heappush

import simpy

from capsim.fleet.server import Server


class Completions:
    """Wakes the simulation when a sequence may have ended on any server.

    One heap of the servers' next completions; a submit moves a server's next completion, so each entry carries a
    version and stale ones are skipped. SimPy cannot cancel a timeout: a wake-up that was overtaken finds nothing to do.
    """

    def __init__(
        self, environment: simpy.Environment, servers: Many[Server], deliver: Callable[[Server], None]
    ) -> None:
        self._environment = environment
        self._servers = servers
        self._deliver = deliver
        self._versions = [0] * len(servers)
        self._heap: list[tuple[float, int, int]] = []
        self._wake = math.inf

    def moved(self, server: Server) -> None:
        """Something was submitted to, or taken from, this server.

        That may have carried its clock over an end at the same instant: then its wake-up is due now.
        """
        version = self._versions[server.index] = self._versions[server.index] + 1
        replica = server.replica
        time = self._environment.now if replica.finished else replica.next_completion()
        if time < math.inf:
            heappush(self._heap, (time, version, server.index))
        self._sleep()

    def _next(self) -> float:
        heap = self._heap
        while heap and heap[0][1] != self._versions[heap[0][2]]:
            heappop(heap)
        return heap[0][0] if heap else math.inf

    def _sleep(self) -> None:
        time = self._next()
        if time < self._wake:
            self._wake = time
            timeout = self._environment.timeout(max(0.0, time - self._environment.now))
            timeout.callbacks.append(lambda _: self._awake(time))

    def _awake(self, due: float) -> None:
        if due == self._wake:
            self._wake = math.inf
        while (time := self._next()) <= due:
            server = self._servers[heappop(self._heap)[2]]
            server.replica.advance(time)
            self._deliver(server)
            self.moved(server)
        self._sleep()
