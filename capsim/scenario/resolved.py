"""A scenario as a plain mapping with every default filled in: the record kept beside its results."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from capsim.catalog.data import data_folder
from capsim.fleet.configuration import FleetConfiguration
from capsim.measure.objectives import Objectives
from capsim.scenario.engine_settings import EngineSettings, OffloadSettings
from capsim.scenario.settings import (
    ConstantSettings,
    DemandSettings,
    LengthSettings,
    LinearSettings,
    PlanSettings,
    ProfileSettings,
    RooflineSettings,
    Scenario,
    StepCostSettings,
    SyntheticSettings,
    TraceSettings,
)
from capsim.units import format_duration, format_rate, format_share


def resolved(scenario: Scenario) -> dict[str, Any]:
    """The scenario in the file's own schema, in a stable order, JSON-able; loading it gives the same scenario.

    Durations, sizes, rates and shares are exact. What is shipped is named, so that the record holds on another machine;
    any other file is an absolute path.
    """
    return {
        "version": 1,
        "name": scenario.name,
        "model": scenario.model.name if scenario.model_file is None else str(scenario.model_file),
        "gpu": scenario.gpu.name if scenario.gpu_file is None else str(scenario.gpu_file),
        "engine": {**_engine(scenario.engine), **_args(scenario)},
        "step_cost": _step_cost(scenario.step_cost),
        "demand": _demand(scenario.demand),
        "fleet": _fleet(scenario.fleet),
        "slo": _objectives(scenario.objectives),
        "plan": _plan(scenario.plan),
        "validation": None if scenario.validation is None else str(scenario.validation),
        "seed": scenario.seed,
    }


def _engine(engine: EngineSettings) -> dict[str, Any]:
    return {
        **dataclasses.asdict(engine),
        "watermark": _share(engine.watermark),
        "kv_offload": [_tier(tier) for tier in engine.kv_offload],
    }


def _args(scenario: Scenario) -> dict[str, Any]:
    """The flags of a command line that no key says, so that the record warns of them too."""
    left_out = "" if scenario.command_line is None else scenario.command_line.record
    return {"args": left_out} if left_out else {}


def _tier(tier: OffloadSettings) -> dict[str, Any]:
    return {
        "name": tier.name,
        "capacity": f"{tier.capacity}B",
        "bandwidth": f"{tier.bandwidth!r}B/s",
        "latency": _duration(tier.latency),
        "conversion": _duration(tier.conversion),
    }


def _step_cost(cost: StepCostSettings) -> dict[str, Any]:
    if isinstance(cost, ProfileSettings):
        return {"source": "profile", "path": _file(cost.path, "profiles")}
    if isinstance(cost, ConstantSettings):
        return {"source": "constant", "seconds": _duration(cost.seconds)}
    if isinstance(cost, LinearSettings):
        return {
            "source": "linear",
            **{key: _duration(value) for key, value in dataclasses.asdict(cost).items()},
        }
    return {"source": "roofline", **_roofline(cost)}


def _roofline(cost: RooflineSettings) -> dict[str, Any]:
    return {**dataclasses.asdict(cost), "host_overhead": _optional_duration(cost.host_overhead)}


def _demand(demand: DemandSettings) -> dict[str, Any]:
    plain: dict[str, Any] = {"target": format_rate(demand.target, demand.unit, digits=None)}
    if demand.trace is not None:
        plain["trace"] = _trace(demand.trace)
    if demand.synthetic is not None:
        plain["synthetic"] = _synthetic(demand.synthetic)
    plain["sampling"] = dict(demand.sampling)
    return plain


def _trace(trace: TraceSettings) -> dict[str, Any]:
    plain: dict[str, Any] = {"path": _file(trace.path, "traces"), "format": trace.format}
    if trace.block_size is not None:
        plain["block_size"] = trace.block_size
    return plain


def _synthetic(synthetic: SyntheticSettings) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "arrivals": dataclasses.asdict(synthetic.arrivals),
        "prompt_tokens": _lengths(synthetic.prompt_tokens),
        "output_tokens": _lengths(synthetic.output_tokens),
    }
    if synthetic.prefix is not None:
        prefix = dataclasses.asdict(synthetic.prefix)
        plain["prefix"] = {**prefix, "share": _share(synthetic.prefix.share)}
    if synthetic.priorities:
        plain["priorities"] = [
            {"priority": each.priority, "share": _share(each.share)} for each in synthetic.priorities
        ]
    return plain


def _lengths(lengths: LengthSettings) -> dict[str, Any]:
    return {key: value for key, value in dataclasses.asdict(lengths).items() if value is not None}


def _fleet(fleet: FleetConfiguration) -> dict[str, Any]:
    latencies = dataclasses.asdict(fleet.latencies)
    failures = (dataclasses.asdict(failure) for failure in fleet.failures)
    # Left out where it is off, so that fingerprints tell only what matters.
    gateway = {} if fleet.gateway is None else {"gateway": dataclasses.asdict(fleet.gateway)}
    return {
        "replicas": fleet.replicas,
        "router": fleet.router,
        "latencies": {key: _duration(value) for key, value in latencies.items()},
        "model_load_time": _duration(fleet.model_load_time),
        "max_retries": fleet.max_retries,
        "failures": [
            {
                "replica": failure["replica"],
                "at": _duration(failure["at"]),
                "down_for": _optional_duration(failure["down_for"]),
            }
            for failure in failures
        ],
        **gateway,
    }


def _objectives(objectives: Objectives) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    for gate in objectives.latency:
        # repr, not :g, which would cut p99.99995 short.
        name = "p" + repr(gate.percentile).removesuffix(".0")
        plain.setdefault(gate.metric, {})[name] = _duration(gate.limit)
    plain["error_rate"] = None if objectives.error_rate is None else _share(objectives.error_rate)
    plain["quality"] = {figure.metric: _without(figure, ("metric",)) for figure in objectives.quality}
    return plain


def _plan(plan: PlanSettings) -> dict[str, Any]:
    return {
        **dataclasses.asdict(plan),
        "reserve": _share(plan.reserve),
        "drills": list(plan.drills),
        "duration": _duration(plan.duration),
        "resolution": _share(plan.resolution),
    }


def _without(value: Any, keys: Iterable[str]) -> dict[str, Any]:
    return {key: item for key, item in dataclasses.asdict(value).items() if key not in keys}


def _file(path: Path, kind: str) -> str:
    return path.name if path.parent == data_folder(kind).resolve() else str(path)


def _share(fraction: float) -> str:
    return format_share(fraction, digits=None)


def _duration(seconds: float) -> str:
    return format_duration(seconds, digits=None)


def _optional_duration(seconds: float | None) -> str | None:
    return None if seconds is None else _duration(seconds)
