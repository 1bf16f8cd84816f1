"""An engine started for what it says of its memory."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from calibrate.engine.engine import ENGINES
from capsim.errors import BadInput, Fault
from capsim.memory.startup_log import StartupLog, parse_startup_log

GPU, CPU = "gpu", "cpu"
MARK = "capsim-memory "
"""Begins the line in which the started process says what it knows beside its log."""
_LAST = 12


@dataclass(frozen=True)
class Start:
    """What a started engine told.

    Attributes:
        log: its memory and settings.
        device: `GPU` or `CPU`; a CPU has no memory of its own, and its build keeps packed weights apart, so that
            only the KV cache is told.
        gpu_name: as the driver calls it; empty on a CPU.
    """

    log: StartupLog
    device: str
    gpu_name: str


def start(engine: str, arguments: Mapping[str, Any]) -> Start:
    """Start the installed engine with random weights in a process of its own, and stop it.

    Args:
        engine: ``vllm``.
        arguments: of its client, by name; ``model`` is a folder with a ``config.json``.

    Raises:
        BadInput: it is not installed, or did not start; with the last lines that it printed.
    """
    if importlib.util.find_spec(engine) is None:
        raise BadInput(Fault("--engine", f"{engine} is not installed here", "", ENGINES[engine]))
    command = [sys.executable, "-m", f"calibrate.memory.{engine}_start", json.dumps(dict(arguments))]
    # What the profiling run took is printed at the level of debugging alone.
    environment = {**os.environ, f"{engine.upper()}_LOGGING_LEVEL": "DEBUG"}
    done = subprocess.run(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    told = next((line for line in done.stdout.splitlines() if line.startswith(MARK)), None)
    if told is None:
        last = "\n".join(done.stdout.splitlines()[-_LAST:])
        raise BadInput(Fault(engine, f"did not start:\n{last}", "", "arguments that it takes"))
    return read_start(engine, done.stdout, json.loads(told.removeprefix(MARK)))


def read_start(engine: str, text: str, told: Mapping[str, Any]) -> Start:
    """What a start's output and its own account say together; the account has whole bytes and counts."""
    known = {name: told[name] for name in ("total", "kv", "num_gpu_blocks") if told.get(name)}
    version = told["settings"]["version"]
    source = f"{engine} {version}"
    log = (
        StartupLog(source, told["settings"])
        if told["device"] == CPU
        else replace(parse_startup_log(text, source), settings=told["settings"])
    )
    return Start(replace(log, **known), told["device"], told["gpu_name"])
