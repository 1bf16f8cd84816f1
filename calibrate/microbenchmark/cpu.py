"""A CPU as torch's device: wall clock, fixed threads, no graphs."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Sequence
from itertools import cycle
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

from calibrate.microbenchmark import sample
from calibrate.microbenchmark.device import Call
from calibrate.microbenchmark.held import HeldBytes
from calibrate.microbenchmark.machine import Condition, Machine, cpu_condition
from calibrate.microbenchmark.sample import Sample, Timing

_CACHE = 32 << 20
"""Bytes of a cache that the system does not tell."""


class CpuDevice:
    """Every call runs at once and is over when it returns.

    Args:
        threads: of torch's kernels; they are neither started nor ended while it measures.
        clock: seconds. With one thread `time.thread_time` leaves out what other processes take.
    """

    place = "cpu"
    graphs = False
    timing = sample.CPU

    def __init__(self, threads: int, clock: Callable[[], float] = perf_counter) -> None:
        self._clock = clock
        torch.set_num_threads(threads)
        pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
        self.machine = Machine(
            device="cpu",
            name=_cpu_name(),
            memory=pages * size,
            cache=_cache_bytes(),
            count=1,
            driver="",
            torch=str(torch.__version__),
            threads=threads,
        )

    def condition(self) -> Condition:
        """The load alone."""
        return cpu_condition()

    def time(
        self,
        calls: Sequence[Call],
        *,
        graph: bool = True,  # noqa: ARG002 (there are none)
        timing: Timing | None = None,
    ) -> Sample:
        """See `Device`."""
        for call in calls:
            call()
        turn = cycle(calls)

        def once(many: int) -> float:
            chosen = [next(turn) for _ in range(many)]
            start = self._clock()
            for call in chosen:
                call()
            return self._clock() - start

        return (timing or self.timing).sample(once)

    def now(self) -> float:
        """See `Device`."""
        return self._clock()

    def capture(self, call: Call) -> Call:
        """See `Device`."""
        return call

    def finish(self) -> None:
        """Nothing is ever under way."""

    def fused(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """As it is: a compiler of the system would measure itself."""
        return function

    def peak(self, call: Call) -> int | None:
        """Of the tensors that the call holds."""
        held = HeldBytes()
        with held:
            call()
        return held.most

    def memory(self) -> dict[str, int]:
        """See `Device`."""
        return {"total": self.machine.memory}

    def release(self) -> None:
        """Nothing is cached."""

    def out_of_memory(self, error: Exception) -> bool:
        """See `Device`."""
        return isinstance(error, MemoryError) or "can't allocate memory" in str(error)


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _cache_bytes() -> int:
    """Of the largest cache of the first CPU."""
    sizes = [_CACHE]
    for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        text = path.read_text(encoding="utf-8").strip()
        if text.endswith("K") and text[:-1].isdigit():
            sizes.append(int(text[:-1]) << 10)
    return max(sizes[1:] or sizes)
