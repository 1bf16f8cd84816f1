"""The operators of one step on one rank: bytes and FLOPs of each, and the seconds that they take."""

from __future__ import annotations

from collections.abc import Mapping

from capsim.catalog.gpu import Gpu
from capsim.catalog.model import DTYPE_BYTES, Model, check_dtype
from capsim.cost.efficiency import Efficiency
from capsim.cost.step import Factor
from capsim.errors import BadInput

_ACTIVATION_BYTES = 2
"""Activations, embeddings and logits are 16-bit whatever the weights are."""


class Operators:
    """Seconds of the parts of a step for one model, GPU, degree of tensor parallelism and precision.

    Columns of qkv and gate+up and rows of output and down are split over the ranks; KV heads are replicated where
    there are more ranks than heads. One rank's time is the step's time: all ranks do the same.

    Attributes:
        seconds_per_context_token: decode attention of all layers for one token of context.
        seconds_per_query_key_pair: prefill attention arithmetic of all layers for one pair of query and key.
        attention_floor: least seconds of all layers' attention in a step.

    Raises:
        BadInput: see `RooflineCost`.
    """

    def __init__(
        self,
        model: Model,
        gpu: Gpu,
        tensor_parallel_size: int,
        weight_dtype: str,
        kv_dtype: str,
        efficiency: Efficiency,
    ) -> None:
        kv_heads = model.kv_heads_of_rank(tensor_parallel_size)
        check_dtype("weight dtype", weight_dtype)
        check_dtype("KV dtype", kv_dtype)
        self._model = model
        self._gpu = gpu
        self._ranks = tensor_parallel_size
        self._efficiency = efficiency
        self._weight_bytes = DTYPE_BYTES[weight_dtype]
        self._flops = _dense_flops(gpu, weight_dtype) * efficiency.gemm_compute
        self._bandwidth = gpu.memory_bandwidth * efficiency.gemm_bandwidth
        self._query_size = model.attention_heads // tensor_parallel_size * model.head_dim
        self._key_size = kv_heads * model.head_dim
        self._kv_bytes = 2 * self._key_size * DTYPE_BYTES[kv_dtype]
        attention_bandwidth = gpu.memory_bandwidth * efficiency.attention_bandwidth
        self.seconds_per_context_token = model.layers * self._kv_bytes / attention_bandwidth
        # Two products (queries with keys, weights with values), a multiplication and an addition each.
        attention_flops = _dense_flops(gpu, "bfloat16") * efficiency.attention_compute
        self.seconds_per_query_key_pair = model.layers * 4 * self._query_size / attention_flops
        self.attention_floor = model.layers * efficiency.attention_latency

    def token_seconds(self, tokens: int) -> float:
        """All layers' matrix products, element-wise kernels and all-reduces for `tokens` tokens of a batch."""
        layer = sum(self._gemm_seconds(tokens, n, k, self._weight_bytes) for n, k in self.gemms())
        layer += sum(self._elementwise_seconds(tokens * size) for size in self.elementwise_bytes())
        layer += 2 * self._ring_seconds(2, tokens * self._model.hidden_size * _ACTIVATION_BYTES)
        return self._model.layers * layer

    def sequence_seconds(self, rows: int) -> float:
        """Output projection, gathering and sampling of `rows` rows of logits.

        Sampling reads the 16-bit logits, writes them as float32 and reads those once more for the arg max: 10 bytes
        an element. Top-k and top-p cost more and are not counted.
        """
        model = self._model
        gemm = self._gemm_seconds(
            rows, model.vocabulary_size / self._ranks, model.hidden_size, _ACTIVATION_BYTES
        )
        gather = self._ring_seconds(1, rows * model.vocabulary_size * _ACTIVATION_BYTES)
        return gemm + gather + self._elementwise_seconds(rows * model.vocabulary_size * 10)

    def gemms(self) -> tuple[tuple[float, float], ...]:
        """One layer's matrix products on one rank, as (outputs n, inputs k): qkv, output, gate and up, down."""
        hidden, intermediate = self._model.hidden_size, self._model.intermediate_size / self._ranks
        return (
            (self._query_size + 2 * self._key_size, hidden),
            (hidden, self._query_size),
            (2 * intermediate, hidden),
            (hidden, intermediate),
        )

    def elementwise_bytes(self) -> tuple[float, ...]:
        """Bytes a token that one layer's element-wise kernels move on one rank, one entry a kernel.

        Two norms with their residual (read and write both streams), rotary embedding of queries and keys in place,
        the write of keys and values to the cache, and the gated activation; the norm of queries and keys where the
        model has it.
        """
        hidden, heads = self._model.hidden_size, self._query_size + self._key_size
        intermediate = self._model.intermediate_size / self._ranks
        norm = 4 * hidden * _ACTIVATION_BYTES
        rotary = 2 * heads * _ACTIVATION_BYTES
        cache = 2 * self._key_size * _ACTIVATION_BYTES + self._kv_bytes
        activation = 3 * intermediate * _ACTIVATION_BYTES
        kernels = (norm, rotary, cache, norm, activation)
        return (*kernels, rotary) if self._model.qk_norm else kernels

    def streamed_weight_bytes(self) -> float:
        """Bytes of weights that one rank reads in every step: all layers and the output projection."""
        layer = sum(n * k for n, k in self.gemms()) * self._weight_bytes
        head = self._model.embedding_parameters / self._ranks * _ACTIVATION_BYTES
        return self._model.layers * layer + head

    def describe(self) -> Mapping[str, Factor]:
        """The data-sheet figures used."""
        gpu = self._gpu
        figures = {"memory_bandwidth": gpu.memory_bandwidth, "link_bandwidth": gpu.link_bandwidth}
        figures |= {f"dense_flops.{dtype}": flops for dtype, flops in gpu.dense_flops.items()}
        return {
            f"gpu.{name}": Factor(value, "data sheet", gpu.sources.get(name.split(".")[0], gpu.name))
            for name, value in figures.items()
        }

    def _gemm_seconds(self, tokens: int, n: float, k: float, weight_bytes: int) -> float:
        arithmetic = 2 * tokens * n * k / self._flops
        traffic = (n * k * weight_bytes + tokens * (n + k) * _ACTIVATION_BYTES) / self._bandwidth
        return max(arithmetic, traffic, self._efficiency.kernel_latency)

    def _elementwise_seconds(self, moved: float) -> float:
        bandwidth = self._gpu.memory_bandwidth * self._efficiency.elementwise_bandwidth
        return max(moved / bandwidth, self._efficiency.kernel_latency)

    def _ring_seconds(self, passes: int, message: float) -> float:
        """Each pass of a ring of p ranks sends (p - 1) / p of the message over every link."""
        if self._ranks == 1:
            return 0.0
        sent = passes * (self._ranks - 1) / self._ranks * message
        bandwidth = self._gpu.link_bandwidth * self._efficiency.link_bandwidth
        return self._efficiency.all_reduce_latency + sent / bandwidth


def _dense_flops(gpu: Gpu, dtype: str) -> float:
    """FLOPs per second at which products of this dtype run; without fp8 arithmetic fp8 weights are widened first."""
    wide = gpu.dense_flops.get("bfloat16")
    flops = gpu.dense_flops.get(dtype, wide)
    if flops is None or wide is None:
        raise BadInput(f"gpu {gpu.name}: dense_flops lacks bfloat16, which attention and 16-bit weights need")
    return flops
