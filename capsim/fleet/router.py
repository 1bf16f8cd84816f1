from __future__ import annotations

from collections.abc import Sequence as Many
from typing import Protocol

from capsim.fleet.server import Server


class Router(Protocol):
    """Picks the replica of a request."""

    def pick(self, servers: Many[Server], time: float) -> Server | None:
        """One of the servers that are open at `time`, None if none is."""


class RoundRobin:
    """Each server in turn; those that are not open are passed over."""

    def __init__(self) -> None:
        self._next = 0

    def pick(self, servers: Many[Server], time: float) -> Server | None:  # noqa: ARG002
        """The next server in turn."""
        for _ in servers:
            server = servers[self._next]
            self._next += 1
            if self._next == len(servers):
                self._next = 0
            if server.open:
                return server
        return None


class LeastOutstanding:
    """The server with the fewest unfinished requests, the first of equals in turn."""

    def __init__(self) -> None:
        self._next = 0

    def pick(self, servers: Many[Server], time: float) -> Server | None:
        """The server with the fewest unfinished requests at `time`."""
        first = self._next
        self._next = (first + 1) % len(servers)
        candidates = [server for server in (*servers[first:], *servers[:first]) if server.open]
        return min(candidates, key=lambda server: server.outstanding(time), default=None)


ROUTERS: dict[str, type[RoundRobin] | type[LeastOutstanding]] = {
    "round_robin": RoundRobin,
    "least_outstanding": LeastOutstanding,
}
