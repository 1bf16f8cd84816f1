from __future__ import annotations

from capsim.engine import Replica, Sequence
from capsim.fleet.log import ReplicaState, StateChange


class Server:
    """A replica in its surroundings: it can be up, down, or loading its model.

    Attributes:
        index: position in the fleet.
        replica: the engine.
        state: what it is doing.
        changes: every state it entered, and when.
    """

    __slots__ = ("changes", "index", "replica", "state")

    def __init__(self, index: int, replica: Replica) -> None:
        self.index = index
        self.replica = replica
        self.state = ReplicaState.UP
        self.changes: list[StateChange] = [StateChange(0.0, index, ReplicaState.UP)]

    @property
    def up(self) -> bool:
        """Whether the router may send requests here."""
        return self.state is ReplicaState.UP

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
