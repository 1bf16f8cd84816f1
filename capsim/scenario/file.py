"""The scenario file's schema: which keys there are, what they hold, and their defaults.

Only single values are checked here and in the sections; what several keys must agree on is in `capsim.scenario.checks`.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import PlainValidator

from capsim.catalog import json_schema
from capsim.catalog.schema import Count, Section, Text, refused, shown
from capsim.scenario.demand_section import DemandSection
from capsim.scenario.engine_section import EngineSection
from capsim.scenario.fleet_section import FleetSection
from capsim.scenario.objectives_section import ObjectivesSection
from capsim.scenario.plan_section import PlanSection
from capsim.scenario.step_cost_section import RooflineSection, StepCostSection


def _version(value: object) -> int:
    if value == 1 and not isinstance(value, bool):
        return 1
    raise refused(f"{shown(value)} is no version of the scenario format that is known here", "1")


class ScenarioSection(Section):
    """The whole file; what is required is None where it is missing, so that all the rest can be checked."""

    version: Annotated[int, PlainValidator(_version, json_schema_input_type=json_schema.one_of(1))] | None = (
        None
    )
    name: Text | None = None
    model: Text | None = None
    gpu: Text | None = None
    engine: EngineSection = EngineSection()
    step_cost: StepCostSection = RooflineSection()
    demand: DemandSection | None = None
    fleet: FleetSection = FleetSection()
    slo: ObjectivesSection | None = None
    plan: PlanSection = PlanSection()
    validation: Text | None = None
    seed: Count = 0
    extends: Text | None = None
