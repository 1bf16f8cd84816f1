"""A CUDA GPU as torch's device: CUDA events, CUDA graphs, its allocator's own figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import cycle, islice
from time import perf_counter
from typing import Any

import torch
import torch._dynamo.config

from calibrate.microbenchmark import sample
from calibrate.microbenchmark.device import Call
from calibrate.microbenchmark.machine import Condition, Machine, driver_version, gpu_condition, smi_path
from calibrate.microbenchmark.sample import Sample, Timing
from capsim.errors import BadInput, Fault

_MOST_COMPILED = 64
"""Versions of a compiled function; beyond the default of 8 torch would fall back without a word, and time that."""
_LOOK = 16
"""Calls of the first graph, which tells how many the timed one needs."""


class CudaDevice:
    """The first GPU that is visible.

    Raises:
        BadInput: torch finds none, with why and what to do.
    """

    place = "cuda:0"
    graphs = True
    timing = sample.CUDA

    def __init__(self) -> None:
        _refuse_without_gpu()
        torch.cuda.set_device(0)
        facts = torch.cuda.get_device_properties(0)
        torch._dynamo.config.recompile_limit = _MOST_COMPILED
        self._compiles = _compiles()
        self._pool = torch.cuda.graph_pool_handle()
        self.machine = Machine(
            device="cuda",
            name=str(facts.name),
            memory=int(torch.cuda.mem_get_info(0)[1]),
            cache=int(facts.L2_cache_size),
            count=torch.cuda.device_count(),
            driver=driver_version(),
            torch=str(torch.__version__),
            fused=self._compiles,
        )

    def condition(self) -> Condition:
        """See `Device`."""
        return gpu_condition()

    def time(self, calls: Sequence[Call], *, graph: bool = True, timing: Timing | None = None) -> Sample:
        """See `Device`; without graphs the calls are launched one by one, and the launches are waited for."""
        timing = timing or self.timing
        self._warm(calls)
        if not graph:
            turn = cycle(calls)
            return timing.sample(lambda many: self._seconds(lambda: _each(islice(turn, many))))
        one = self._seconds(lambda: _each(calls)) / len(calls)
        if one < timing.least:  # perhaps most of it is launching
            look = self._graph(islice(cycle(calls), max(_LOOK, len(calls))))
            look.replay()
            one = self._seconds(look.replay) / max(_LOOK, len(calls))
        many = max(len(calls), timing.calls(one))
        timed = self._graph(islice(cycle(calls), many))
        timed.replay()
        repeats = timing.repeats_of(many * one)
        return Sample.of([self._seconds(timed.replay) / many for _ in range(repeats)])

    def now(self) -> float:
        """See `Device`."""
        return perf_counter()

    def capture(self, call: Call) -> Call:
        """See `Device`; all of them share one pool of memory, as an engine's do, and so run one after the other."""
        self._warm([call])
        graph = self._graph([call], self._pool)
        replay: Call = graph.replay
        return replay

    def finish(self) -> None:
        """See `Device`."""
        torch.cuda.synchronize()

    def fused(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """By torch.compile, which finds out by itself that the tokens vary; as it is where nothing can be compiled."""
        compiled: Callable[..., Any] = torch.compile(function) if self._compiles else function
        return compiled

    def peak(self, call: Call) -> int | None:
        """See `Device`."""
        call()
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        call()
        torch.cuda.synchronize()
        return int(torch.cuda.max_memory_allocated() - before)

    def memory(self) -> dict[str, int]:
        """See `Device`; what lies outside torch is right where no other process uses the GPU."""
        free, total = torch.cuda.mem_get_info(0)
        reserved = torch.cuda.memory_reserved()
        return {"total": int(total), "outside": int(total - free - reserved), "reserved": int(reserved)}

    def release(self) -> None:
        """See `Device`."""
        torch.cuda.synchronize()
        torch.cuda.empty_cache()

    def out_of_memory(self, error: Exception) -> bool:
        """See `Device`; libraries that allocate for themselves say so in words."""
        return isinstance(error, torch.cuda.OutOfMemoryError) or "out of memory" in str(error).lower()

    def _warm(self, calls: Sequence[Call]) -> None:
        """Once on a stream of its own, as capturing wants it: kernels are chosen and workspaces allocated."""
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            _each(calls)
            _each(calls)
        torch.cuda.current_stream().wait_stream(stream)
        torch.cuda.synchronize()

    @staticmethod
    def _graph(calls: Any, pool: Any = None) -> Any:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool):
            _each(calls)
        return graph

    @staticmethod
    def _seconds(run: Call) -> float:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        run()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) * 1e-3


def _each(calls: Any) -> None:
    for call in calls:
        call()


def _compiles() -> bool:
    """Whether torch.compile works here; it needs Triton and a C compiler."""

    def halved(value: Any) -> Any:
        return value * 0.5 + 1

    try:
        torch.compile(halved)(torch.ones(8, device="cuda"))
    except Exception:  # whatever is missing, the eager kernels are there
        return False
    return True


def _refuse_without_gpu() -> None:
    """Say which of torch, driver and GPU is missing."""
    if torch.cuda.is_available():
        return
    if torch.version.cuda is None:
        what, todo = (
            f"torch {torch.__version__} is built without CUDA",
            "a CUDA build of torch (pip install torch)",
        )
    elif smi_path() is None:
        what, todo = (
            "the NVIDIA driver is missing: there is no nvidia-smi",
            "a driver, or --device cpu",
        )
    else:
        driver = driver_version() or "unknown"
        what = f"torch {torch.__version__} for CUDA {torch.version.cuda} finds no GPU by driver {driver}"
        todo = f"a driver for CUDA {torch.version.cuda} or newer, and a GPU in CUDA_VISIBLE_DEVICES"
    raise BadInput(Fault("--device", what, "cuda", todo))
