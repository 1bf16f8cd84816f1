"""What share of its data sheet a GPU reaches, and the latencies that no data sheet states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from typing import Any

from capsim.cost.step import Factor
from capsim.errors import BadInput, Fault

_KERNELS = "NVIDIA aiconfigurator 0.12.0 (Apache-2.0), H200 SXM, vLLM 0.24.0 kernels: "
_PROFILES = "median of the shipped profiles (see capsim catalog): "
_LINKS = "NVIDIA aiconfigurator 0.12.0 (Apache-2.0), H200 SXM: "


def _factor(default: float, tag: str, source: str) -> Any:
    return field(default=default, metadata={"tag": tag, "source": source})


@dataclass(frozen=True)
class Efficiency:
    """One number per kind of work; shares are of the data sheet's figure, latencies are seconds.

    Those that profiles show are the medians over the shipped ones (three models and three GPUs, 1 to 8 of them; the
    spread is wide, and `capsim catalog` prints it). The other measured ones are single points of the kernel tables
    that NVIDIA publishes with aiconfigurator (Apache-2.0) for the H200. None is fitted to an end-to-end figure, and on
    another GPU they are an assumption.

    Attributes:
        gemm_compute: FLOPs of a layer's matrix products at the most tokens measured; 0.52 to 1.00 over the profiles.
        gemm_bandwidth: bytes of their weights at one token; 0.41 to 0.93.
        weight_only_compute: share of the 16-bit products' rate that is left where the kernel widens the weights (int8,
            int4, fp8 without fp8 arithmetic). Assumed: published kernels lose little while memory binds, and more at
            large batches.
        expert_compute: FLOPs of the grouped products of experts. bf16, 16,384 tokens: 0.67 of the data sheet for
            Mixtral-8x7B, 0.55 for Qwen3-235B-A22B, 0.51 for Qwen3-30B-A3B (and less where experts are split thin).
        expert_latency: least seconds of a layer's chosen experts beside reading their weights. bf16, one token: 16 to
            30 us over the same models on 1 to 8 GPUs.
        attention_compute: FLOPs of causal prefill attention, a prompt of 2,048 tokens; 0.22 to 0.62.
        attention_bandwidth: bytes of KV read by 64 sequences of 2,048 tokens; 0.45 to 0.86.
        attention_latency: least seconds of one layer's attention; 8.0 to 11.5 us.
        elementwise_bandwidth: bytes of norms, rotary embedding, activation, KV writes and sampling; a large matrix
            product's share of the memory bandwidth at one token (3.84 of 4.8 TB/s), not measured.
        kernel_latency: least seconds of any other kernel inside a CUDA graph. bf16 GEMM n = k = 32, m = 1: 2.5 us.
        link_bandwidth: bytes between GPUs. NCCL all-reduce of 64 MiB: 0.61, 0.70 and 0.82 of 450 GB/s on 2, 4, 8.
        all_reduce_latency: least seconds of an all-reduce. vLLM's own in a CUDA graph, 256 B: 4.4 to 4.7 us.
        host_overhead: seconds of a step in which the GPU waits for the CPU (scheduling, inputs, outputs). Assumed:
            an engine that schedules ahead hides most of it, one that does not shows several milliseconds.

    Raises:
        BadInput: a share is not in (0, 1], or a latency is negative.
    """

    gemm_compute: float = _factor(
        0.75, "measured", _PROFILES + "a layer's matrix products at the most tokens"
    )
    gemm_bandwidth: float = _factor(0.75, "measured", _PROFILES + "a layer's matrix products at one token")
    weight_only_compute: float = _factor(
        0.80, "assumed", "share of the 16-bit rate left by widening weights; no measurement behind it"
    )
    expert_compute: float = _factor(
        0.55,
        "measured",
        _KERNELS + "bf16 fused experts, 16,384 tokens: 0.67 Mixtral-8x7B, 0.51 Qwen3-30B-A3B",
    )
    expert_latency: float = _factor(
        20e-6, "measured", _KERNELS + "bf16 fused experts, 1 token, beyond the reading of their weights"
    )
    attention_compute: float = _factor(0.40, "measured", _PROFILES + "causal attention of 2,048 tokens")
    attention_bandwidth: float = _factor(0.77, "measured", _PROFILES + "64 decodes at 2,048 tokens")
    attention_latency: float = _factor(11.3e-6, "measured", _PROFILES + "one decode of the shortest context")
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
