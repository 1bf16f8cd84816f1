"""What this machine is: cores, memory, and the GPUs that it shows."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec

from capsim.catalog import load_gpu
from capsim.errors import BadInput

_NVIDIA_SMI = ("nvidia-smi", "--query-gpu=name", "--format=csv,noheader")
_TORCH = (
    "import torch\nfor i in range(torch.cuda.device_count()): print(torch.cuda.get_device_properties(i).name)"
)
_PATIENCE = 60.0
"""Seconds for an answer; torch takes some to be imported from a cold disk."""


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def memory() -> int | None:
    """Bytes of main memory, None where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None


def gpus() -> tuple[str, list[str]]:
    """Who was asked, and the names of the GPUs seen: by nvidia-smi, else by torch where it is installed.

    Torch is asked in a process of its own, so that this one neither waits for it nor keeps a GPU's memory.
    """
    if shutil.which("nvidia-smi"):
        return "nvidia-smi", _lines(_NVIDIA_SMI)
    if find_spec("torch") is not None:
        return "torch", _lines((sys.executable, "-c", _TORCH))
    return "", []


def in_catalog(gpu: str) -> str | None:
    """The catalog's name of a GPU, None if it has none."""
    try:
        return load_gpu(gpu).name
    except BadInput:
        return None


def _lines(command: Sequence[str]) -> list[str]:
    """What a command prints; nothing where it fails, as nvidia-smi does without a driver."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return [line.strip() for line in done.stdout.splitlines() if line.strip()]
