from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Observation:
    """State of a replica at its last step boundary: what a router or a scaler may see.

    Attributes:
        time: the boundary, seconds; the time asked for if the replica is idle.
        running, waiting: sequences.
        blocks: KV blocks held, those of the step that began at the boundary included once the time is past it.
        context: tokens that the decoding sequences read in the step from the boundary on.
    """

    time: float
    running: int
    waiting: int
    blocks: int
    context: int
