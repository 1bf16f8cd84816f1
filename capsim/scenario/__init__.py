"""A scenario: one YAML file that holds everything a question needs, checked and turned into plain values."""

from capsim.scenario.engine_settings import EngineSettings, LimitSettings, OffloadSettings
from capsim.scenario.load import load
from capsim.scenario.resolved import resolved
from capsim.scenario.settings import (
    ArrivalSettings,
    ConstantSettings,
    DemandSettings,
    LengthSettings,
    LinearSettings,
    PlanSettings,
    PrefixSettings,
    PrioritySettings,
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
    "LimitSettings",
    "LinearSettings",
    "OffloadSettings",
    "PlanSettings",
    "PrefixSettings",
    "PrioritySettings",
    "ProfileSettings",
    "RooflineSettings",
    "Scenario",
    "StepCostSettings",
    "SyntheticSettings",
    "TraceSettings",
    "load",
    "resolved",
]
