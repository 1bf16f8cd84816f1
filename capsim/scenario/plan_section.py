from __future__ import annotations

from typing import Annotated

from pydantic import Field

from capsim.catalog.schema import Boolean, PositiveCount, PositiveDuration, Section, choice, share


class PlanSection(Section):
    """`plan`."""

    reserve: Annotated[float, share("a share such as '20%'")] = 0.2
    drills: list[Annotated[str, choice("replica_missing")]] = Field(
        default_factory=lambda: ["replica_missing"]
    )
    duration: PositiveDuration = 600.0
    replications: PositiveCount = 8
    max_replicas: PositiveCount = 1024
    resolution: Annotated[float, share("more than 0% and less than 100%", lambda width: 0 < width < 1)] = 0.03
    literal_replay: Boolean = True
