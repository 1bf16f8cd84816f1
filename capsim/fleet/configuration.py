from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Latencies:
    """Time that a request spends outside the engine, seconds; constants, each named.

    Attributes:
        network: client to gateway, one way.
        gateway: accepting, authenticating and routing in the gateway.
        tokenization: text to tokens, before the engine's queue.
        detokenization: tokens to text, after each step.
        stream_flush: until a token's event is on the wire, after each step.
    """

    network: float = 0.0
    gateway: float = 0.0
    tokenization: float = 0.0
    detokenization: float = 0.0
    stream_flush: float = 0.0

    @property
    def inbound(self) -> float:
        """From the client's submission to the engine's queue."""
        return self.network + self.gateway + self.tokenization

    @property
    def outbound(self) -> float:
        """From a token's step end to the client."""
        return self.detokenization + self.stream_flush + self.network


@dataclass(frozen=True)
class Failure:
    """A replica that dies at `at` and is repaired after `down_for` (None: never), seconds; it then loads its model."""

    replica: int
    at: float
    down_for: float | None = None


@dataclass(frozen=True)
class FlowControl:
    """How many requests the gateway lets through to the replicas, and how many it lets wait.

    Attributes:
        max_outstanding: most unfinished requests that a replica is given; the others wait in one queue at the gateway,
            which every replica takes its next one from.
        queue: most requests that wait there; more are rejected. None: any number.
    """

    max_outstanding: int
    queue: int | None = None


@dataclass(frozen=True)
class FleetConfiguration:
    """Replicas behind one router.

    Attributes:
        replicas: how many.
        router: ``round_robin`` or ``least_outstanding``.
        latencies: between client and engine.
        model_load_time: seconds between a replica's repair and its first request.
        max_retries: how often a request that lost its replica is sent again before it ends as an error.
        failures: replicas that die, and when.
        gateway: flow control; None: every request is handed to a replica as soon as it comes.
    """

    replicas: int
    router: str = "round_robin"
    latencies: Latencies = field(default_factory=Latencies)
    model_load_time: float = 60.0
    max_retries: int = 1
    failures: tuple[Failure, ...] = ()
    gateway: FlowControl | None = None
