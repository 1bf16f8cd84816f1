"""What results begin with, each as plain data."""

from __future__ import annotations

from typing import Any

from capsim import __version__
from capsim.plan.deployment import Fitted
from capsim.scenario import resolved

SCHEMA_VERSION = 1
"""Of every result."""

Json = dict[str, Any]


def heading(schema: str) -> Json:
    """Which kind of result it is, and which capsim found it."""
    return {"schema": schema, "schema_version": SCHEMA_VERSION, "capsim_version": __version__}


def identity(deployment: Fitted) -> Json:
    """What a result stands for: two results compare only where `comparable` is equal."""
    scenario = deployment.scenario
    return {
        "scenario": scenario.name,
        "fingerprint": deployment.fingerprint,
        "seed": scenario.seed,
        "comparable": {
            "model": scenario.model.name,
            "model_source": scenario.model.source,
            "tokenizer": "the demand's own token counts",
            "dtype": scenario.engine.dtype,
            "kv_cache_dtype": scenario.engine.kv_cache_dtype,
            "lengths": {key: deployment.demand.description()[key] for key in ("prompt", "output")},
            "engine": f"{scenario.engine.name} {scenario.engine.version}",
            "slo": resolved(scenario)["slo"],
        },
        "configuration": resolved(scenario),
    }
