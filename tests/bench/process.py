"""`python -m tests.bench.process`: seconds and memory of whole ``capsim run`` commands, interpreter start included.

One replica of Llama-3.1-8B on an H200 by its shipped profile, Poisson arrivals at 10 a second, 512 tokens in and 256
out. Modules are compiled before anything is measured, as pip does when it installs them. Prints how busy the machine
was, since seconds mean nothing without it.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

SCENARIO = """\
version: 1
name: process
model: llama-3.1-8b
gpu: h200
engine: {version: "0.19.0", max_model_len: 16384}
step_cost: {source: profile, path: h200-llama-3.1-8b-bf16-tp1}
demand:
  target: 10/s
  synthetic:
    prompt_tokens: {distribution: fixed, value: 512}
    output_tokens: {distribution: fixed, value: 256}
slo:
  ttft: {p95: 500ms}
"""
SIZES = (10_000, 100_000, 1_000_000)


@dataclass(frozen=True)
class Process:
    """What one command took.

    Attributes:
        user, system, wall: seconds.
        peak: largest resident memory, MB of 10 ** 6 bytes.
    """

    user: float
    system: float
    wall: float
    peak: float


def measured(arguments: list[str], environment: dict[str, str]) -> Process:
    """Run ``capsim`` with these arguments in a process of its own; what it prints is dropped.

    Raises:
        RuntimeError: it fails.
    """
    start = time.perf_counter()
    silent = [(os.POSIX_SPAWN_OPEN, output, os.devnull, os.O_WRONLY, 0) for output in (1, 2)]
    command = [sys.executable, "-m", "capsim.cli.main", *arguments]
    process = os.posix_spawn(sys.executable, command, environment, file_actions=silent)
    _, status, usage = os.wait4(process, 0)
    if status:
        raise RuntimeError(f"{' '.join(command)} ended with status {status}")
    unit = 1 if sys.platform == "darwin" else 1024  # bytes there, KiB here
    return Process(usage.ru_utime, usage.ru_stime, time.perf_counter() - start, usage.ru_maxrss * unit / 1e6)


def with_compiled_modules(folder: Path) -> dict[str, str]:
    """This process's environment, but that Python keeps compiled modules, and keeps them in this folder."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPYCACHEPREFIX": str(folder)}


def main(sizes: list[int]) -> None:
    """Print one line for ``capsim --help`` and one a size."""
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores\n")
    print(f"{'':<22} {'user s':>8} {'system s':>9} {'wall s':>8} {'peak MB':>8}")
    with tempfile.TemporaryDirectory() as folder:
        scenario = Path(folder) / "process.yaml"
        scenario.write_text(SCENARIO, encoding="utf-8")
        environment = with_compiled_modules(Path(folder) / "compiled")
        measured(["run", str(scenario), "--requests", "10"], environment)
        lines = {"capsim --help": ["--help"]}
        for size in sizes:
            lines[f"{size:>9,} requests"] = ["run", str(scenario), "--requests", str(size)]
        for name, arguments in lines.items():
            took = measured(arguments, environment)
            print(
                f"{name:<22} {took.user:>8.2f} {took.system:>9.2f} {took.wall:>8.2f} {took.peak:>8.0f}",
                flush=True,
            )
    print(f"\nload average {os.getloadavg()[0]:.1f} at the end")


if __name__ == "__main__":
    main([int(size) for size in sys.argv[1:]] or list(SIZES))
