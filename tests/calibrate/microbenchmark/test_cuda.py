"""What a GPU would be asked, on a torch whose CUDA runs on the CPU."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install '.[calibrate]'")

from calibrate.microbenchmark import cuda  # noqa: E402
from calibrate.microbenchmark.axes import DENSITIES  # noqa: E402
from calibrate.microbenchmark.bench import NotPossible, OutOfMemory  # noqa: E402
from calibrate.microbenchmark.case import Batch, Case  # noqa: E402
from calibrate.microbenchmark.cuda import CudaDevice  # noqa: E402
from calibrate.microbenchmark.plan import Plan  # noqa: E402
from calibrate.microbenchmark.sample import CUDA  # noqa: E402
from calibrate.microbenchmark.torch_bench import TorchBench  # noqa: E402
from capsim.errors import BadInput  # noqa: E402
from tests.calibrate.microbenchmark.fake_bench import LIMITS, SMALL  # noqa: E402
from tests.calibrate.microbenchmark.paged import paged  # noqa: E402


class FakeEvent:
    """Seconds on the wall."""

    def __init__(self, enable_timing: bool) -> None:
        assert enable_timing

    def record(self) -> None:
        self.at = time.perf_counter()

    def synchronize(self) -> None: ...

    def elapsed_time(self, other: FakeEvent) -> float:
        return 1e3 * (other.at - self.at)


class FakeGraph:
    """Runs what was called while it was captured."""

    capturing: FakeGraph | None = None

    def __init__(self) -> None:
        self.calls: list[Callable[[], Any]] = []

    def replay(self) -> None:
        for call in self.calls:
            call()


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> CudaDevice:
    """A CUDA device whose kernels run on the CPU: for the order of warm-up, capture and replay, not for times."""
    facts = type("Facts", (), {"name": "NVIDIA Fake", "L2_cache_size": 1 << 20})

    @contextlib.contextmanager
    def graph(graph: FakeGraph, pool: object = None) -> Iterator[None]:
        assert pool in (None, (0, 1))
        FakeGraph.capturing = graph
        yield
        FakeGraph.capturing = None

    stream = type("Stream", (), {"wait_stream": lambda *_: None})
    fakes = {
        "is_available": lambda: True,
        "set_device": lambda _: None,
        "get_device_properties": lambda _: facts,
        "mem_get_info": lambda _: (30 << 30, 40 << 30),
        "memory_reserved": lambda: 9 << 30,
        "memory_allocated": lambda: 8 << 30,
        "max_memory_allocated": lambda: 9 << 30,
        "reset_peak_memory_stats": lambda: None,
        "device_count": lambda: 1,
        "graph_pool_handle": lambda: (0, 1),
        "Stream": stream,
        "current_stream": stream,
        "stream": lambda _: contextlib.nullcontext(),
        "synchronize": lambda: None,
        "empty_cache": lambda: None,
        "Event": FakeEvent,
        "CUDAGraph": FakeGraph,
        "graph": graph,
    }
    for name, fake in fakes.items():
        monkeypatch.setattr(torch.cuda, name, fake)
    monkeypatch.setattr(cuda, "_compiles", lambda: False)
    monkeypatch.setattr(torch.ops.aten, "_flash_attention_forward", paged)
    monkeypatch.setattr(CudaDevice, "place", "cpu")
    monkeypatch.setattr(CudaDevice, "timing", replace(CUDA, least=1e-4, repeats=3))

    def each(calls: Any) -> None:
        for call in calls:
            if FakeGraph.capturing is not None:
                FakeGraph.capturing.calls.append(call)
            call()

    monkeypatch.setattr(cuda, "_each", each)
    return CudaDevice()


def test_a_run_on_a_gpu_measures_a_case_of_every_kind(gpu: CudaDevice) -> None:
    limits = replace(
        LIMITS, graphs=True, layers=2, max_num_batched_tokens=64, max_num_seqs=8, max_model_len=512
    )
    rank = replace(SMALL, model=replace(SMALL.model, layers=2))
    plan = Plan(rank, limits, DENSITIES[-1])
    bench = TorchBench(gpu)
    bench.load(plan)
    kinds = {(case.kind, case.name): case for case in reversed(plan.cases())}
    for case in kinds.values():
        if case.name == "copy" or case.name.startswith("matrix"):
            continue  # of a size for a GPU
        found = bench.measure(case)
        assert found.sample is not None or found.figures
    assert bench.measure(kinds["memory", "total"]).figures == {"bytes": 40 << 30}
    assert bench.measure(kinds["memory", "outside torch"]).figures == {"bytes": 1 << 30}
    assert bench.measure(kinds["memory", "activations"]).figures == {"bytes": 1 << 30}
    assert {("step", "graph"), ("step", "eager"), ("memory", "graphs"), ("request", "alone")} <= set(kinds)


def test_short_calls_fill_a_graph_and_long_ones_are_made_once(gpu: CudaDevice) -> None:
    made: list[str] = []
    gpu.time([lambda: made.append("a"), lambda: made.append("b")])
    assert made[:4] == ["a", "b", "a", "b"]
    short = len(made)
    made.clear()
    gpu.time([lambda: time.sleep(2e-4) or made.append("c")])  # type: ignore[func-returns-value]
    assert len(made) < short
    assert gpu.machine.name == "NVIDIA Fake"


def test_what_torch_refuses_is_a_row_and_a_broken_gpu_stops_the_run(
    gpu: CudaDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = TorchBench(gpu)
    bench.load(Plan(SMALL, replace(LIMITS, graphs=True, layers=2), DENSITIES[-1]))
    case = Case("attention", "decode", batch=Batch.equal(0, 0, 2, 64))

    def refuses(*_: Any, **__: Any) -> None:
        raise RuntimeError("FlashAttention only supports Ampere GPUs or newer.")

    def breaks(*_: Any, **__: Any) -> None:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    def fills(*_: Any, **__: Any) -> None:
        raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")

    monkeypatch.setattr(torch.ops.aten, "_flash_attention_forward", refuses)
    with pytest.raises(NotPossible, match="only supports Ampere"):
        bench.measure(case)
    monkeypatch.setattr(torch.ops.aten, "_flash_attention_forward", breaks)
    with pytest.raises(RuntimeError, match="illegal memory access"):
        bench.measure(case)
    monkeypatch.setattr(torch.ops.aten, "_flash_attention_forward", fills)
    with pytest.raises(OutOfMemory):
        bench.measure(case)


def test_a_torch_without_cuda_is_told_from_a_missing_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    monkeypatch.setattr(torch.version, "cuda", None)
    with pytest.raises(BadInput, match="built without CUDA, expected a CUDA build of torch"):
        CudaDevice()
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(cuda, "smi_path", lambda: None)
    with pytest.raises(BadInput, match="driver is missing"):
        CudaDevice()
    monkeypatch.setattr(cuda, "smi_path", lambda: "nvidia-smi")
    monkeypatch.setattr(cuda, "driver_version", lambda: "470.10")
    with pytest.raises(BadInput, match=r"CUDA 13\.0 finds no GPU by driver 470\.10, expected a driver for"):
        CudaDevice()
