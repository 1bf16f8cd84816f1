from __future__ import annotations

import math

from capsim.engine import Replica, Sequence
from capsim.fleet.log import ReplicaState, StateChange


class Server:
    """A replica in its surroundings: it can be up, down, or loading its model.

    Attributes:
        index: position in the fleet.
        replica: the engine.
        state: what it is doing.
        changes: every state it entered, and when.
        in_flight: requests that the gateway let through and that have not ended; 0 without flow control.
        max_outstanding: most of them.
    """

    __slots__ = ("changes", "in_flight", "index", "max_outstanding", "replica", "state")

    def __init__(self, index: int, replica: Replica, max_outstanding: float = math.inf) -> None:
        self.index = index
        self.replica = replica
        self.state = ReplicaState.UP
        self.in_flight = 0
        self.max_outstanding = max_outstanding
        self.changes: list[StateChange] = [StateChange(0.0, index, ReplicaState.UP)]

    @property
    def up(self) -> bool:
        """Whether it serves."""
        return self.state is ReplicaState.UP

    @property
    def open(self) -> bool:
        """Whether the router may send a request here."""
        return self.state is ReplicaState.UP and self.in_flight < self.max_outstanding

    def enter(self, state: ReplicaState, time: float) -> None:
        """Change state at `time` seconds."""
        self.state = state
        self.changes.append(StateChange(time, self.index, state))

    def fail(self, time: float) -> list[Sequence]:
        """Go down at `time`; returns the sequences that were in flight."""
        self.enter(ReplicaState.DOWN, time)
        return self.replica.fail(time)

    def outstanding(self, time: float) -> int:
        """Sequences submitted and not ended by `time`."""
        self.replica.advance(time)
        return self.replica.outstanding
