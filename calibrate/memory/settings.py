"""The settings that a start was made with: those that the engine tells, and those that the user states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from capsim.catalog import Gpu, Model
from capsim.errors import BadInput, Fault
from capsim.memory.question import MemoryQuestion
from capsim.memory.startup_log import StartupLog

DEFAULTS: Mapping[str, Any] = {"block_size": 16, "tensor_parallel_size": 1, "gpu_memory_utilization": 0.9}
"""vLLM's, where neither tells; of the others none holds for every GPU and release."""
NEEDED = ("version", "max_model_len", "max_num_seqs", "max_num_batched_tokens")
OPTIONS = {"version": "--engine-version", "tensor_parallel_size": "--tp"}
"""Options that have another name than the setting."""


def question_of(
    log: StartupLog, model: Model, gpu: Gpu, dtype: str, kv_dtype: str, stated: Mapping[str, Any]
) -> MemoryQuestion:
    """What decided the memory of a start.

    Args:
        log: of the start; the settings that it names.
        model: that was started.
        gpu: on which.
        dtype: of the weights.
        kv_dtype: of the KV cache.
        stated: settings by name, None where the user does not state them.

    Raises:
        BadInput: the log and the user disagree, or neither tells a setting that has no one default.
    """
    given = {name: value for name, value in stated.items() if value is not None}
    found = {**DEFAULTS, **given, **log.settings}
    faults = [
        Fault(log.source, f"the engine ran with {log.settings[name]}, {option(name)} says {value}", name)
        for name, value in given.items()
        if log.settings.get(name, value) != value
    ]
    faults += [
        Fault(log.source, "does not tell it", name, option(name)) for name in NEEDED if name not in found
    ]
    if faults:
        raise BadInput(*faults)
    return MemoryQuestion(
        model,
        gpu,
        tensor_parallel_size=found["tensor_parallel_size"],
        weight_dtype=dtype,
        kv_dtype=kv_dtype,
        block_size=found["block_size"],
        gpu_memory_utilization=found["gpu_memory_utilization"],
        max_model_len=found["max_model_len"],
        max_num_seqs=found["max_num_seqs"],
        max_num_batched_tokens=found["max_num_batched_tokens"],
        engine_version=found["version"],
        pipeline_parallel_size=found.get("pipeline_parallel_size", 1),
        data_parallel_size=found.get("data_parallel_size", 1),
        enforce_eager=found.get("enforce_eager", False),
    )


def option(name: str) -> str:
    """The option that states a setting."""
    return OPTIONS.get(name, "--" + name.replace("_", "-"))
