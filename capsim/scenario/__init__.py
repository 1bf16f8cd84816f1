"""A scenario: one YAML file that holds everything a question needs, checked and turned into plain values."""

from capsim.scenario.load import load
from capsim.scenario.resolved import resolved
from capsim.scenario.settings import (
    ArrivalSettings,
    ConstantSettings,
    DemandSettings,
    EngineSettings,
    LengthSettings,
    LinearSettings,
    PlanSettings,
    PrefixSettings,
    ProfileSettings,
    RooflineSettings,
    Scenario,
    StepCostSettings,
    SyntheticSettings,
    TraceSettings,
)

__all__ = [
    "ArrivalSettings",
    "ConstantSettings",
    "DemandSettings",
    "EngineSettings",
    "LengthSettings",
    "LinearSettings",
    "PlanSettings",
    "PrefixSettings",
    "ProfileSettings",
    "RooflineSettings",
    "Scenario",
    "StepCostSettings",
    "SyntheticSettings",
    "TraceSettings",
    "load",
    "resolved",
]
