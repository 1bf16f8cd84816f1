"""Measures cases with torch, on whatever device it is given."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch.nn import functional

from calibrate.microbenchmark.attention import PAGE, KvCache, PagedCache, WholeCache
from calibrate.microbenchmark.bench import Measured, NotPossible, OutOfMemory
from calibrate.microbenchmark.case import (
    ATTENTION,
    CEILING,
    COMMUNICATION,
    MEMORY,
    OPERATOR,
    REQUEST,
    STEP,
    Batch,
    Case,
)
from calibrate.microbenchmark.decoder import DTYPES, Decoder
from calibrate.microbenchmark.device import Call, Device
from calibrate.microbenchmark.kernels import FP8, FP8_CAPABILITY
from calibrate.microbenchmark.machine import Condition, Machine
from calibrate.microbenchmark.operator_calls import OperatorCalls
from calibrate.microbenchmark.plan import Plan, pool_tokens
from calibrate.microbenchmark.rank import WIDE, Ceilings
from calibrate.microbenchmark.sample import Timing
from capsim.errors import BadInput, Fault

_BROKEN = ("CUDA error", "device-side assert", "illegal memory access")
"""After these nothing can be measured any more in this process."""
REQUESTS = 3
"""Requests that are measured alone; the median counts."""


class TorchBench:
    """A torch device, a decoder and its KV cache.

    Args:
        device: what is measured on.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self._decoder: Decoder | None = None
        self._cache: KvCache | None = None
        self._plan: Plan | None = None
        self._operators: OperatorCalls | None = None
        self._measures: dict[str, Callable[[Case], Measured]] = {
            CEILING: self._ceiling,
            MEMORY: self._memory,
            OPERATOR: self._operator,
            COMMUNICATION: self._communication,
            ATTENTION: self._attention,
            STEP: self._step,
            REQUEST: self._request,
        }

    @property
    def machine(self) -> Machine:
        """See `Bench`."""
        return self._device.machine

    @property
    def timing(self) -> Timing:
        """See `Bench`."""
        return self._device.timing

    def condition(self) -> Condition:
        """See `Bench`."""
        return self._device.condition()

    def ceilings(self, dtypes: tuple[str, ...]) -> Ceilings:
        """See `Bench`."""
        copy = self._ceiling(Case(CEILING, "copy"))
        rates = {dtype: _rate(self._ceiling(Case(CEILING, f"matrix {dtype}"))) for dtype in dtypes}
        return Ceilings(_rate(copy), rates, self.machine.cache)

    def load(self, plan: Plan) -> None:
        """See `Bench`."""
        try:
            self._decoder = Decoder(plan.rank, plan.limits.layers, self._device)
            self._cache = (
                PagedCache(plan.rank, pool_tokens(plan, PAGE), self._device.place)
                if self._device.graphs
                else WholeCache(plan.rank, pool_tokens(plan))
            )
        except Exception as error:
            raise self._as_failure(error) from error
        self._plan = plan
        self._operators = OperatorCalls(plan.rank, self._decoder, self._cache, self.machine.cache)

    def measure(self, case: Case) -> Measured:
        """See `Bench`."""
        try:
            with torch.inference_mode():
                return self._measures[case.kind](case)
        except NotPossible:
            raise
        except Exception as error:
            self._device.release()
            raise self._as_failure(error) from error

    def _as_failure(self, error: Exception) -> Exception:
        """What torch refuses as such, so that the next case is measured; any other error is a defect and stays one."""
        if self._device.out_of_memory(error):
            return OutOfMemory(str(error))
        if isinstance(error, RuntimeError) and not any(sign in str(error) for sign in _BROKEN):
            return NotPossible(f"torch says: {str(error).strip().splitlines()[0]}")
        return error

    @property
    def _loaded(self) -> tuple[Decoder, KvCache, Plan]:
        if self._decoder is None or self._cache is None or self._plan is None:
            raise AssertionError("measured before load")
        return self._decoder, self._cache, self._plan

    @property
    def _calls(self) -> OperatorCalls:
        if self._operators is None:
            raise AssertionError("measured before load")
        return self._operators

    # Ceilings and memory

    def _ceiling(self, case: Case) -> Measured:
        if case.name == "copy":
            size = max(64 << 20, 4 * self.machine.cache) if self._device.graphs else 2 * self.machine.cache
            source = torch.randn(size // 4, device=self._device.place)
            target = torch.empty_like(source)
            sample = self._device.time([lambda: target.copy_(source)], timing=self.timing.at_best())
            return Measured(sample, {"amount": 2.0 * source.numel() * source.element_size()})
        dtype = case.name.removeprefix("matrix ")
        _refuse_dtype(self.machine, dtype)
        size = 8192 if self._device.graphs else 512
        left, right = (self._square(size, dtype) for _ in range(2))
        call = self._product(left, right)
        return Measured(self._device.time([call], timing=self.timing.at_best()), {"amount": 2.0 * size**3})

    def _square(self, size: int, dtype: str) -> Any:
        return torch.randn(size, size, device=self._device.place).to(torch.bfloat16).to(DTYPES[dtype])

    def _product(self, left: Any, right: Any) -> Call:
        if left.dtype != FP8:
            return lambda: functional.linear(left, right)
        one = torch.ones((), device=self._device.place)
        return lambda: torch._scaled_mm(
            left, right.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=True
        )

    def _memory(self, case: Case) -> Measured:
        decoder, _, plan = self._loaded
        memory = self._device.memory()
        if case.name == "weights":
            return Measured(figures={"bytes": decoder.weight_bytes})
        if case.name == "activations":
            return Measured(figures={"bytes": self._activations(case.count)})
        if case.name == "graphs":
            return Measured(figures={"bytes": self._graph_bytes(plan.limits.graph_sizes)})
        key = {"total": "total", "outside torch": "outside"}[case.name]
        if key not in memory:
            raise NotPossible("not known on this device")
        return Measured(figures={"bytes": memory[key]})

    def _activations(self, tokens: int) -> int:
        """Peak of a step of so many tokens in as many sequences as an engine may run."""
        decoder, cache, plan = self._loaded
        sequences = min(tokens, plan.limits.max_num_seqs)
        new = [tokens // sequences + (place < tokens % sequences) for place in range(sequences)]
        inputs = decoder.inputs(Batch.of([[each, 0] for each in new], []), cache)
        peak = self._device.peak(lambda: decoder.step(inputs, cache))
        if peak is None:
            raise NotPossible("not known on this device")
        return peak

    def _graph_bytes(self, sizes: Sequence[int]) -> int:
        """What torch reserves more when a decode step of every size is captured, the largest first, as engines do."""
        decoder, cache, _ = self._loaded
        self._device.release()
        before = self._device.memory()["reserved"]
        graphs = []
        for size in reversed(sizes):
            inputs = decoder.inputs(Batch.equal(0, 0, size, 16), cache)
            graphs.append(self._device.capture(partial(decoder.step, inputs, cache)))
        return self._device.memory()["reserved"] - before

    # Kernels

    def _operator(self, case: Case) -> Measured:
        return Measured(self._device.time(self._calls.operator(case.name, case.count)))

    def _attention(self, case: Case) -> Measured:
        return Measured(self._device.time(self._calls.attention(case.shape)))

    # Whole steps

    def _step(self, case: Case) -> Measured:
        decoder, cache, plan = self._loaded
        sizes = plan.limits.graph_sizes
        padded = next((size for size in sizes if size >= case.shape.tokens), case.shape.tokens)
        inputs = decoder.inputs(case.shape, cache, padded)
        sample = self._device.time([lambda: decoder.step(inputs, cache)], graph=case.name != "eager")
        return Measured(sample, {"layers": len(decoder.layers)})

    def _request(self, case: Case) -> Measured:
        """A prompt and its output tokens, one request after the other, each token fetched as a server does."""
        _, _, plan = self._loaded
        found = [self._one_request(case) for _ in range(REQUESTS)]
        first, further = (statistics.median(each) for each in zip(*found, strict=True))
        return Measured(figures={"ttft": first, "tpot": further, "layers": plan.limits.layers})

    def _one_request(self, case: Case) -> tuple[float, float]:
        decoder, cache, _ = self._loaded
        prompt = case.shape.tokens
        prefill = decoder.inputs(case.shape, cache)
        decode = decoder.inputs(Batch.equal(0, 0, 1, prompt + 1), cache, room=case.count)
        kept: dict[str, Any] = {}

        def one_more() -> None:
            kept["token"] = decoder.step(decode, cache)

        replay = self._device.capture(one_more)
        decoder.step(prefill, cache)
        self._device.finish()
        start = self._device.now()
        decoder.step(prefill, cache)[0].item()
        first = self._device.now()
        for _ in range(case.count - 1):
            replay()
            decode.ids.copy_(kept["token"])
            decode.positions.add_(1)
            cache.advance(decode.placement)
            kept["token"].item()
        return first - start, (self._device.now() - first) / (case.count - 1)

    def _communication(self, case: Case) -> Measured:
        _, _, plan = self._loaded
        if self.machine.count < plan.rank.ranks or not self._device.graphs:
            raise NotPossible(f"needs {plan.rank.ranks} GPUs, and there is {self.machine.count}")
        from calibrate.microbenchmark.all_reduce import NCCL, time_all_reduce

        elements = case.count * plan.rank.model.hidden_size
        return Measured(time_all_reduce(plan.rank.ranks, elements, NCCL, self.timing))


def check_dtype(machine: Machine, dtype: str) -> None:
    """Refuse a dtype that the device does not compute in.

    Raises:
        BadInput: naming what would.
    """
    try:
        _refuse_dtype(machine, dtype)
    except NotPossible as error:
        raise BadInput(Fault("--dtype", str(error), dtype, WIDE)) from error


def _refuse_dtype(machine: Machine, dtype: str) -> None:
    if dtype != "fp8":
        return
    if machine.device != "cuda":
        raise NotPossible("torch._scaled_mm, which multiplies FP8, is measured on GPUs only")
    capability = torch.cuda.get_device_capability(0)
    if capability < FP8_CAPABILITY:
        found = ".".join(map(str, capability))
        raise NotPossible(f"{machine.name} has compute capability {found} and multiplies FP8 from 8.9 on")


def _rate(found: Measured) -> float:
    if found.sample is None or found.figures is None:
        raise TypeError("a ceiling without a sample")
    return found.figures["amount"] / found.sample.best
