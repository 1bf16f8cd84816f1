"""What share of its data sheet a GPU reaches, and the latencies that no data sheet states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from typing import Any, NamedTuple

from capsim.cost.step import Factor
from capsim.errors import BadInput, Fault

_KERNELS = "NVIDIA aiconfigurator 0.12.0 (Apache-2.0), H200 SXM, vLLM 0.24.0 kernels: "
_PROFILES = "median of the shipped profiles of H200, RTX 4090 and RTX PRO 6000: "
_EXPERTS = (
    "NVIDIA aiconfigurator 0.12.0 (Apache-2.0), H100 and H200 SXM, 45 tables of fused experts of vLLM, SGLang and "
    "TensorRT-LLM: "
)
_LINKS = "NVIDIA aiconfigurator 0.12.0 (Apache-2.0), H200 SXM: "


def _factor(default: float, tag: str, source: str) -> Any:
    return field(default=default, metadata={"tag": tag, "source": source})


class ExpertSpread(NamedTuple):
    """How long measured kernels of experts take, as multiples of what the roofline computes.

    Attributes:
        low: tenth percentile.
        high: ninetieth percentile.
    """

    low: float
    high: float


EXPERT_SPREAD = {
    (16, False): ExpertSpread(0.8, 1.4),
    (16, True): ExpertSpread(0.9, 2.5),
    (8, False): ExpertSpread(0.8, 2.9),
    (8, True): ExpertSpread(0.8, 2.0),
    (4, False): ExpertSpread(0.8, 3.0),
    (4, True): ExpertSpread(0.9, 3.7),
}
"""By bits of a weight, and whether experts are dealt out to ranks: over the tables that the
factors are fitted to, and those of the same routing on 2 to 8 ranks, which they are not. The widest come from kernels
that an engine has not tuned to a shape, and from two tables (FP8 of vLLM 0.24, int4 of vLLM 0.19) that take four times
the reading of their weights."""


@dataclass(frozen=True)
class Efficiency:
    """One number per kind of work; shares are of the data sheet's figure, latencies are seconds.

    Those that profiles show are the medians over the shipped dense ones of H200, RTX 4090 and RTX PRO 6000 (eleven of
    three models, on 1 to 8 GPUs). The spread is wide; `capsim catalog` prints it over the profiles of all GPUs. Those
    of A100, B200, H100 and L40S came later and did not move the factors: they test them. The other measured ones are
    single points of the kernel tables that NVIDIA publishes with aiconfigurator (Apache-2.0) for the H200. None is
    fitted to an end-to-end figure, and on another GPU they are an assumption.

    The five of experts are fitted together to tables of the same package: all 45 of experts' kernels on H100 and H200
    (vLLM, SGLang and TensorRT-LLM, several versions and precisions each, 22 shapes), none left out, each with the same
    weight among those of as many bits, where a power law of 1.01 chooses the experts, as in the shipped profiles, and
    none are dealt out to ranks. What was found is rounded to the slow side. Engines' kernels differ far more than these
    factors: `EXPERT_SPREAD`.

    Attributes:
        gemm_compute: FLOPs of a layer's matrix products at the most tokens measured; 0.52 to 1.00 over these profiles.
        gemm_bandwidth: bytes of their weights at one token; 0.41 to 0.93.
        weight_only_compute: share of the 16-bit products' rate that is left where the kernel widens the weights (int8,
            int4, fp8 without fp8 arithmetic). Assumed: published kernels lose little while memory binds, and more at
            large batches.
        expert_compute: FLOPs of experts' grouped products with 16-bit weights, whose time comes on top of the
            reading's; found 0.68.
        narrow_expert_compute: the same with 8-bit and 4-bit weights, of the rate at which they compute; found 0.39.
        expert_bandwidth: bytes of experts' weights and activations; found 1.00. Weights that are widened are read at
            `weight_only_compute` of it.
        expert_latency: seconds of a layer's chosen experts beside their products (choice, sorting, activation, sum),
            16-bit weights; found 35 us.
        narrow_expert_latency: the same with 8-bit and 4-bit weights; found 47 us.
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
    expert_compute: float = _factor(0.65, "fitted", _EXPERTS + "16-bit weights")
    narrow_expert_compute: float = _factor(0.37, "fitted", _EXPERTS + "8-bit and 4-bit weights")
    expert_bandwidth: float = _factor(0.95, "fitted", _EXPERTS + "all weights")
    expert_latency: float = _factor(35e-6, "fitted", _EXPERTS + "16-bit weights")
    narrow_expert_latency: float = _factor(50e-6, "fitted", _EXPERTS + "8-bit and 4-bit weights")
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
