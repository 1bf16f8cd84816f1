from __future__ import annotations

from typing import Annotated

from pydantic import Field

from capsim.catalog.schema import Count, Duration, PositiveCount, Section, choice


class LatenciesSection(Section):
    """`fleet.latencies`."""

    network: Duration = 0.0
    gateway: Duration = 0.0
    tokenization: Duration = 0.0
    detokenization: Duration = 0.0
    stream_flush: Duration = 0.0


class GatewaySection(Section):
    """`fleet.gateway`."""

    max_outstanding: PositiveCount
    queue: Count | None = None


class FailureSection(Section):
    """One of `fleet.failures`."""

    replica: Count
    at: Duration
    down_for: Duration | None = None


class FleetSection(Section):
    """`fleet`."""

    replicas: PositiveCount = 1
    router: Annotated[str, choice("round_robin", "least_outstanding")] = "round_robin"
    latencies: LatenciesSection = LatenciesSection()
    model_load_time: Duration = 60.0
    max_retries: Count = 1
    failures: list[FailureSection] = Field(default_factory=list)
    gateway: GatewaySection | None = None
