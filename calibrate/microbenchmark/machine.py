"""What a run stands on: the machine, and how it feels while it is measured."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from capsim.units import format_size

SLOWED_CLOCK = 0.9
"""Of the fastest clock seen under load: below it a GPU is throttled."""
SLOWED = 1.1
"""Times the seconds of the first look at a ceiling: beyond it something slowed the machine down."""
IDLE = 10
"""Per cent of utilization up to which a GPU counts as idle."""
SLOWDOWN_REASONS = {
    0x8: "a hardware slowdown",
    0x20: "the software's temperature limit",
    0x40: "the hardware's temperature limit",
    0x80: "the hardware's power brake",
}
"""Bits of ``clocks_event_reasons.active`` that a healthy loaded GPU does not show; NVML's ``nvmlClocksEventReasons``.
The power cap (0x4) is not among them: a loaded GPU runs at it."""
_SECONDS = 20  # nvidia-smi answers within one, or never


@dataclass(frozen=True)
class Machine:
    """What was measured on.

    Attributes:
        device: ``cuda`` or ``cpu``.
        name: of the GPU or CPU as its driver states it.
        memory: bytes.
        cache: bytes of the last-level cache.
        count: GPUs of this kind, or 1.
        driver: its version; empty on a CPU.
        torch: its version.
        threads: of a CPU; 0 on a GPU.
        fused: element-wise kernels were compiled together, as an engine's are.
    """

    device: str
    name: str
    memory: int
    cache: int
    count: int
    driver: str
    torch: str
    threads: int = 0
    fused: bool = False

    def members(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    @classmethod
    def of(cls, members: Mapping[str, Any]) -> Machine:
        """From the members.

        Raises:
            KeyError: one is missing.
        """
        return cls(**{each.name: members[each.name] for each in fields(cls)})

    def __str__(self) -> str:
        driver = f", driver {self.driver}" if self.driver else ""
        noun = "thread" if self.threads == 1 else "threads"
        threads = f", {self.threads} {noun}" if self.threads else ""
        return f"{self.name}, {format_size(self.memory)}{driver}{threads}, torch {self.torch}"


@dataclass(frozen=True)
class Condition:
    """How the device feels; None: its driver does not tell.

    Attributes:
        clock: MHz of the multiprocessors.
        temperature: degrees Celsius.
        power: watts.
        utilization: per cent.
        slowdowns: why its clock is held down, in words.
        others: processes that use it beside this one, as pid and bytes; inside a container a driver may tell this one
            by a pid of its own, so that they are looked at before this process uses the GPU.
        load: processes that wait for a CPU, on average over a minute.
    """

    clock: float | None = None
    temperature: float | None = None
    power: float | None = None
    utilization: float | None = None
    slowdowns: tuple[str, ...] = ()
    others: tuple[tuple[int, int], ...] = field(default=())
    load: float | None = None

    def members(self) -> dict[str, Any]:
        """For JSON, what is known."""
        return {name: value for name, value in asdict(self).items() if value not in (None, (), [])}

    @property
    def busy(self) -> str:
        """Why nothing should be measured now; empty where nothing speaks against it."""
        if self.others:
            used = ", ".join(f"{pid} ({format_size(size)})" for pid, size in self.others)
            return f"other processes use the GPU: {used}"
        if self.utilization is not None and self.utilization > IDLE:
            return f"the GPU is {self.utilization:.0f} % busy although nothing was started on it"
        if self.load is not None and self.load > (os.cpu_count() or 1) / 2:
            return f"{self.load:.1f} processes wait for {os.cpu_count()} CPUs"
        return ""


def cpu_condition() -> Condition:
    """Of the CPUs; their clocks are not told."""
    return Condition(load=round(os.getloadavg()[0], 2))


def visible_gpu() -> str:
    """The first GPU that CUDA shows, as ``nvidia-smi --id`` takes it: an index or an identifier."""
    return os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")[0].strip() or "0"


def smi_path() -> str | None:
    """The driver's own tool, None where it is not installed."""
    return shutil.which("nvidia-smi")


def gpu_condition() -> Condition:
    """Of the first GPU that CUDA shows, by ``nvidia-smi``; nothing is known where there is none."""
    rows = ask_smi("gpu", ("clocks.sm", "temperature.gpu", "power.draw", "utilization.gpu", REASONS_FIELD))
    if not rows or len(rows[0]) < 5:
        return Condition()
    clock, temperature, power, utilization = (_number(cell) for cell in rows[0][:4])
    processes = ask_smi("compute-apps", ("pid", "used_memory"))
    return Condition(
        clock, temperature, power, utilization, _slowdowns(rows[0][4]), _others(processes), load=None
    )


REASONS_FIELD = "clocks_event_reasons.active"


def ask_smi(what: str, names: Sequence[str]) -> list[list[str]]:
    """Cells of a query, without units; no rows where the tool is missing or refuses."""
    path = smi_path()
    if path is None:
        return []
    command = [
        path,
        f"--id={visible_gpu()}",
        f"--query-{what}={','.join(names)}",
        "--format=csv,noheader,nounits",
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    if done.returncode:
        return []
    return [[cell.strip() for cell in line.split(",")] for line in done.stdout.splitlines() if line.strip()]


def driver_version() -> str:
    """As ``nvidia-smi`` prints it; empty where it is not there."""
    rows = ask_smi("gpu", ("driver_version",))
    return rows[0][0] if rows else ""


def _slowdowns(cell: str) -> tuple[str, ...]:
    try:
        bits = int(cell, 16)
    except ValueError:
        return ()
    return tuple(reason for bit, reason in SLOWDOWN_REASONS.items() if bits & bit)


def _others(rows: Sequence[Sequence[str]]) -> tuple[tuple[int, int], ...]:
    found = []
    for pid, used, *_ in (row for row in rows if len(row) >= 2):
        if pid.isdigit() and int(pid) != os.getpid():
            found.append((int(pid), int(_number(used) or 0) << 20))
    return tuple(found)


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:  # "[N/A]", "[Not Supported]"
        return None
