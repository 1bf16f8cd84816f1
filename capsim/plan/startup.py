"""A replica whose memory is what its engine printed when it started."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from capsim.errors import BadInput, Fault
from capsim.memory.measured import compared, disagreements, measured_fit
from capsim.memory.startup_log import StartupLog
from capsim.plan.deployment import Fitted, fitted
from capsim.plan.replica_memory import memory_question
from capsim.scenario import Scenario

Json = dict[str, Any]


def fitted_as_logged(scenario: Scenario, log: StartupLog) -> Fitted:
    """`fitted`, with the engine's own KV blocks and the memory lines that its log prints.

    A number of blocks that the scenario states is ignored.

    Raises:
        BadInput: the log is of an engine with other settings, each with the change that makes them agree.
        Infeasible: the log is of an engine that did not start for want of memory.
    """
    _refuse_other_settings(scenario, log)
    memory = measured_fit(replace(memory_question(scenario), num_gpu_blocks=None), log)
    stated = replace(scenario, engine=replace(scenario.engine, num_gpu_blocks=memory.num_gpu_blocks))
    return replace(fitted(stated), memory=memory)


def log_record(deployment: Fitted, log: StartupLog) -> Json:
    """What the log says beside what the memory model says of the same settings, bytes."""
    question = replace(memory_question(deployment.scenario), num_gpu_blocks=None)
    blocks = deployment.memory.num_gpu_blocks
    return {
        "source": log.source,
        "num_gpu_blocks": blocks,
        "model_num_gpu_blocks": max(0, question.kv_bytes // question.layout.bytes_per_block),
        "lines": [
            {
                "name": row.name,
                "log": row.measured,
                "model": row.counted,
                "difference": row.difference,
            }
            for row in compared(question, log)
        ],
        "disagreements": list(disagreements(question, log)),
    }


def _refuse_other_settings(scenario: Scenario, log: StartupLog) -> None:
    """A pool of other settings is another pool."""
    faults = []
    for name, value in log.settings.items():
        stated = getattr(scenario.engine, name, None)
        if stated is not None and _comparable(name, stated) != _comparable(name, value):
            shown = str(value).lower() if isinstance(value, bool) else value
            what = f"the engine ran with {shown}, the scenario says {stated}"
            faults.append(
                Fault(log.source, what, name, f"--set engine.{name}={shown}, or the log of this scenario")
            )
    if faults:
        raise BadInput(*faults)


def _comparable(name: str, value: object) -> object:
    """Values that name the same pool are equal: releases of a minor version, and names of one precision."""
    if name == "version":
        match = re.search(r"\d+\.\d+", str(value))
        return match[0] if match else value
    if name == "kv_cache_dtype":
        known = {
            "auto": "16 bit",
            "bfloat16": "16 bit",
            "float16": "16 bit",
            "fp8_e4m3": "fp8",
            "fp8_e5m2": "fp8",
        }
        return known.get(str(value), value)
    return value
