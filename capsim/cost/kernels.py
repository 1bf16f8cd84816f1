"""Seconds of single kernels and transfers on one GPU: the longer of arithmetic and traffic, and a least time."""

from __future__ import annotations

from typing import NamedTuple

from capsim.catalog.gpu import Gpu
from capsim.catalog.model import WEIGHT_BYTES, WEIGHT_ONLY, check_dtype
from capsim.cost.efficiency import Efficiency
from capsim.errors import BadInput

ACTIVATION_BYTES = 2
"""Activations, embeddings and logits are 16-bit whatever the weights are."""


class Precision(NamedTuple):
    """How weights are stored and multiplied.

    Attributes:
        bytes: of an element.
        flops: FLOPs per second of the data sheet, less what widening costs.
        widened: the kernel widens the weights to 16 bits first.
    """

    bytes: float
    flops: float
    widened: bool = False

    @property
    def bits(self) -> int:
        """Of a weight, without its share of the scales: 16, 8 or 4."""
        return 8 * int(self.bytes) or 4

    @property
    def narrow(self) -> bool:
        """Whether weights have fewer than 16 bits."""
        return self.bits < 16

    @classmethod
    def of(cls, gpu: Gpu, weight_dtype: str, efficiency: Efficiency) -> Precision:
        """Precision of weights on a GPU.

        Weights that the GPU has no arithmetic for (int8 and int4 are weight-only everywhere, fp8 where the data sheet
        has no such rate) are widened to 16 bits by the kernel, which costs a share of the 16-bit rate.

        Raises:
            BadInput: an unknown dtype, or a GPU without a 16-bit rate.
        """
        check_dtype("weight dtype", weight_dtype, WEIGHT_BYTES)
        wide = gpu.dense_flops.get("bfloat16")
        if wide is None:
            raise BadInput(
                f"gpu {gpu.name}: dense_flops lacks bfloat16, which attention and 16-bit weights need"
            )
        size = WEIGHT_BYTES[weight_dtype]
        native = None if weight_dtype in WEIGHT_ONLY else gpu.dense_flops.get(weight_dtype)
        if native is not None or size == ACTIVATION_BYTES:
            return cls(size, native or wide)
        return cls(size, wide * efficiency.weight_only_compute, widened=True)


class Kernels:
    """Seconds of kernels on one rank, and of transfers between the ranks.

    Args:
        gpu: its data sheet.
        ranks: GPUs that share each layer.
        efficiency: shares of the data sheet that are reached.
    """

    def __init__(self, gpu: Gpu, ranks: int, efficiency: Efficiency) -> None:
        self._ranks = ranks
        self._gemm_compute = efficiency.gemm_compute
        self._expert_compute = efficiency.expert_compute
        self._narrow_expert_compute = efficiency.narrow_expert_compute
        self._expert_bandwidth = gpu.memory_bandwidth * efficiency.expert_bandwidth
        self._widening = efficiency.weight_only_compute
        self._gemm_bandwidth = gpu.memory_bandwidth * efficiency.gemm_bandwidth
        self._elementwise_bandwidth = gpu.memory_bandwidth * efficiency.elementwise_bandwidth
        self._link_bandwidth = gpu.link_bandwidth * efficiency.link_bandwidth
        self._links = ranks - 1 if gpu.link_per_peer else 1
        self._latency = efficiency.kernel_latency
        self._transfer_latency = efficiency.all_reduce_latency

    def product(self, rows: float, n: float, k: float, precision: Precision) -> float:
        """Matrix product of `rows` activations of `k` elements with weights of k x n."""
        arithmetic = 2 * rows * n * k / (precision.flops * self._gemm_compute)
        return max(arithmetic, self._reading(rows, n, k, n * k * precision.bytes), self._latency)

    def grouped_product(
        self, rows: float, n: float, k: float, matrices: float, precision: Precision
    ) -> float:
        """Products of `rows` activations, each with one of `matrices` weights of k x n, in one kernel.

        Arithmetic and reading add up: a product whose rows are dealt out to many matrices in small tiles overlaps the
        two badly. Of the kernels that `Efficiency` was fitted to, the longer of the two explains less. Weights that
        are widened are read more slowly, too: by the same share, which is what 4-bit kernels show.
        """
        share = self._narrow_expert_compute if precision.narrow else self._expert_compute
        arithmetic = 2 * rows * n * k / (precision.flops * share)
        weights = matrices * n * k * precision.bytes / (self._widening if precision.widened else 1.0)
        return arithmetic + (weights + rows * (n + k) * ACTIVATION_BYTES) / self._expert_bandwidth

    def elementwise(self, moved: float) -> float:
        """A kernel that only moves bytes."""
        return max(self.moving(moved), self._latency)

    def moving(self, moved: float) -> float:
        """Bytes moved inside a kernel whose least time is counted elsewhere."""
        return moved / self._elementwise_bandwidth

    def ring(self, passes: int, message: float) -> float:
        """Each pass of a ring of p ranks sends (p - 1) / p of the message over every link; 2 are an all-reduce.

        Where each pair of GPUs has a link of its own, p - 1 rings run at once.
        """
        if self._ranks == 1:
            return 0.0
        sent = passes * (self._ranks - 1) / self._ranks * message
        return self._transfer_latency + sent / (self._link_bandwidth * self._links)

    def hop(self, message: float) -> float:
        """Activations from a pipeline's stage to the next: each rank sends its share, and the receivers gather it.

        A send takes at least the latency of an all-reduce, for want of a figure of its own.
        """
        sent = message / self._ranks / self._link_bandwidth
        return self._transfer_latency + sent + self.ring(1, message)

    def _reading(self, rows: float, n: float, k: float, weights: float) -> float:
        return (weights + rows * (n + k) * ACTIVATION_BYTES) / self._gemm_bandwidth
