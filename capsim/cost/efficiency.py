"""What share of its data sheet a GPU reaches, and the latencies that no data sheet states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from typing import Any

from capsim.cost.step import Factor
from capsim.errors import BadInput, Fault

_KERNELS = "NVIDIA aiconfigurator 0.12.0 (Apache-2.0), H200 SXM, vLLM 0.24.0 kernels: "
_LINKS = "NVIDIA aiconfigurator 0.12.0 (Apache-2.0), H200 SXM: "


def _factor(default: float, tag: str, source: str) -> Any:
    return field(default=default, metadata={"tag": tag, "source": source})


@dataclass(frozen=True)
class Efficiency:
    """One round number per kind of work; shares are of the data sheet's figure, latencies are seconds.

    The measured ones are single points of the kernel tables that NVIDIA publishes with aiconfigurator (Apache-2.0)
    for the H200, large enough that the limit in question binds. They are not fitted to any end-to-end figure, and
    on another GPU they are an assumption.

    Attributes:
        gemm_compute: FLOPs of a matrix product. bf16 n = k = m = 8192: 670 of 989 TFLOP/s (fp8: 1,317 of 1,979).
        gemm_bandwidth: bytes of a matrix product. bf16 n = k = 8192, m = 1: 3.84 of 4.8 TB/s.
        attention_compute: FLOPs of causal prefill attention. 32 query heads, 8 KV heads of 128, 8,192 tokens:
            586 of 989 TFLOP/s (393 at 2,048 tokens, 652 at 16,384).
        attention_bandwidth: bytes of KV read. The same heads, 64 sequences of 8,192 tokens: 4.38 of 4.8 TB/s.
        attention_latency: least seconds of one layer's attention. The same heads, one sequence, 1 or 2 tokens: 12 us.
        elementwise_bandwidth: bytes of norms, rotary embedding, activation, KV writes and sampling; set equal to
            `gemm_bandwidth`, not measured.
        kernel_latency: least seconds of any other kernel inside a CUDA graph. bf16 GEMM n = k = 32, m = 1: 2.5 us.
        link_bandwidth: bytes between GPUs. NCCL all-reduce of 64 MiB: 0.61, 0.70 and 0.82 of 450 GB/s on 2, 4, 8.
        all_reduce_latency: least seconds of an all-reduce. vLLM's own in a CUDA graph, 256 B: 4.4 to 4.7 us.
        host_overhead: seconds of a step in which the GPU waits for the CPU (scheduling, inputs, outputs). Assumed:
            an engine that schedules ahead hides most of it, one that does not shows several milliseconds.

    Raises:
        BadInput: a share is not in (0, 1], or a latency is negative.
    """

    gemm_compute: float = _factor(0.68, "measured", _KERNELS + "bf16 GEMM n=k=m=8192, 670 of 989 TFLOP/s")
    gemm_bandwidth: float = _factor(0.80, "measured", _KERNELS + "bf16 GEMM n=k=8192 m=1, 3.84 of 4.8 TB/s")
    attention_compute: float = _factor(
        0.59, "measured", _KERNELS + "context attention 32/8 heads of 128, 8,192 tokens, 586 of 989 TFLOP/s"
    )
    attention_bandwidth: float = _factor(
        0.91,
        "measured",
        _KERNELS + "generation attention 32/8 heads of 128, 64 x 8,192 tokens, 4.38 of 4.8 TB/s",
    )
    attention_latency: float = _factor(
        12e-6, "measured", _KERNELS + "context and generation attention of one sequence of 1 or 2 tokens"
    )
    elementwise_bandwidth: float = _factor(0.80, "assumed", "as memory-bound matrix products")
    kernel_latency: float = _factor(2.5e-6, "measured", _KERNELS + "bf16 GEMM n=k=32 m=1")
    link_bandwidth: float = _factor(
        0.70, "measured", _LINKS + "NCCL all-reduce of 64 MiB on 4 GPUs (0.61 on 2, 0.82 on 8)"
    )
    all_reduce_latency: float = _factor(
        4.5e-6, "measured", _LINKS + "vLLM all-reduce of 256 B in a CUDA graph"
    )
    host_overhead: float = _factor(0.5e-3, "assumed", "exposed CPU time of an engine that schedules ahead")

    def __post_init__(self) -> None:
        faults = []
        for factor in fields(self):
            value = getattr(self, factor.name)
            if factor.name.endswith(("_compute", "_bandwidth")):
                if not 0 < value <= 1:
                    faults.append(Fault("efficiency", f"{value}", factor.name, "a share in (0, 1]"))
            elif not 0 <= value < 1:
                faults.append(Fault("efficiency", f"{value} seconds", factor.name, "seconds in [0, 1)"))
        if faults:
            raise BadInput(*faults)

    def describe(self) -> Mapping[str, Factor]:
        """Every factor by name; one that differs from its default is the user's statement."""
        return {factor.name: self._describe(factor) for factor in fields(self)}

    def _describe(self, factor: Field[Any]) -> Factor:
        value = getattr(self, factor.name)
        if value != factor.default:
            return Factor(value, "stated", "the scenario")
        return Factor(value, factor.metadata["tag"], factor.metadata["source"])
