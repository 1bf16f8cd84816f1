"""The operators of one step on one rank: bytes and FLOPs of each, and the seconds that they take."""

from __future__ import annotations

from collections.abc import Mapping

from capsim.catalog.gpu import Gpu
from capsim.catalog.model import DTYPE_BYTES, Model, check_dtype
from capsim.catalog.stage import pipeline_stages
from capsim.cost.attention_time import AttentionTime
from capsim.cost.efficiency import EXPERT_SPREAD, Efficiency, ExpertSpread
from capsim.cost.experts import ExpertLayer
from capsim.cost.kernels import ACTIVATION_BYTES, Kernels, Precision
from capsim.cost.step import Factor


class Operators:
    """Seconds of the parts of a step for one model, GPU, degrees of parallelism and precision.

    Columns of qkv and gate+up and rows of output and down are split over the ranks; KV heads are replicated where
    there are more ranks than heads. One rank's time is the step's time: all ranks do the same, or the busiest one is
    counted. The stages of a pipeline work on a batch one after the other, so their times add up.

    Attributes:
        experts: the part of a layer with experts that is not attention; None: the model is dense.
        attention: of the layers that see everything.
        windowed_attention: of those with a window; None: there are none.

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
        *,
        expert_parallel: bool = False,
        pipeline_parallel_size: int = 1,
        routing_skew: float = 0.0,
    ) -> None:
        kv_heads = model.kv_heads_of_rank(tensor_parallel_size)
        check_dtype("KV dtype", kv_dtype)
        self._model = model
        self._gpu = gpu
        self._ranks = tensor_parallel_size
        self._hops = len(pipeline_stages(model, pipeline_parallel_size)) - 1
        self._skew = routing_skew
        self._kernels = Kernels(gpu, tensor_parallel_size, efficiency)
        self._narrow = Precision.of(gpu, weight_dtype, efficiency)
        self._wide = Precision.of(gpu, "bfloat16", efficiency)
        self.experts = (
            None
            if model.experts is None
            else ExpertLayer(
                model,
                model.experts,
                self._kernels,
                tensor_parallel_size,
                expert_parallel,
                routing_skew,
                self._narrow,
                self._wide,
                efficiency,
            )
        )
        self._query_size = model.attention_heads // tensor_parallel_size * model.head_dim
        self._key_size = kv_heads * model.head_dim
        self._kv_bytes = 2 * self._key_size * DTYPE_BYTES[kv_dtype]
        attention_bandwidth = gpu.memory_bandwidth * efficiency.attention_bandwidth
        # Two products (queries with keys, weights with values), a multiplication and an addition each.
        attention_flops = self._wide.flops * efficiency.attention_compute
        per_pair = 4 * self._query_size / attention_flops

        def attention(layers: int, window: int) -> AttentionTime:
            latency = layers * efficiency.attention_latency
            per_context = layers * self._kv_bytes / attention_bandwidth
            return AttentionTime(per_context, layers * per_pair, latency, window)

        windowed = 0 if model.window is None else model.layers - len(model.full_layers)
        self.attention = attention(model.layers - windowed, 0)
        self.windowed_attention = attention(windowed, model.window or 0) if windowed else None

    @property
    def seconds_per_context_token(self) -> float:
        """Decode attention of the layers that see everything, for one token of context."""
        return self.attention.per_context

    @property
    def seconds_per_query_key_pair(self) -> float:
        """Prefill attention arithmetic of the same layers, for one pair of query and key."""
        return self.attention.per_pair

    def token_seconds(self, tokens: int) -> float:
        """All layers' matrix products, element-wise kernels and transfers for `tokens` tokens of a batch."""
        model = self._model
        seconds = 0.0
        if model.dense_layers:
            products = (*self.attention_gemms(), *self.mlp_gemms())
            kernels = (*self.attention_elementwise_bytes(), self.mlp_elementwise_bytes())
            seconds += model.dense_layers * self._layer_seconds(tokens, products, kernels)
        if self.experts is not None:
            layer = self._layer_seconds(tokens, self.attention_gemms(), self.attention_elementwise_bytes())
            seconds += model.expert_layers * (layer + self.experts.seconds(tokens))
        if self._hops:
            # Hidden state and residual, both.
            seconds += self._hops * self._kernels.hop(2 * tokens * model.hidden_size * ACTIVATION_BYTES)
        return seconds

    def sequence_seconds(self, rows: int) -> float:
        """Output projection, gathering and sampling of `rows` rows of logits.

        Sampling reads the 16-bit logits, writes them as float32 and reads those once more for the arg max: 10 bytes
        an element. Top-k and top-p cost more and are not counted.
        """
        model, kernels = self._model, self._kernels
        product = kernels.product(rows, model.vocabulary_size / self._ranks, model.hidden_size, self._wide)
        gather = kernels.ring(1, rows * model.vocabulary_size * ACTIVATION_BYTES)
        return product + gather + kernels.elementwise(rows * model.vocabulary_size * 10)

    def attention_gemms(self) -> tuple[tuple[float, float], ...]:
        """One layer's products around attention on one rank, as (outputs n, inputs k): qkv, output."""
        hidden = self._model.hidden_size
        return ((self._query_size + 2 * self._key_size, hidden), (hidden, self._query_size))

    def mlp_gemms(self) -> tuple[tuple[float, float], ...]:
        """A dense layer's other products: gate and up, down."""
        hidden, intermediate = self._model.hidden_size, self._model.intermediate_size / self._ranks
        return ((2 * intermediate, hidden), (hidden, intermediate))

    def attention_elementwise_bytes(self) -> tuple[float, ...]:
        """Bytes a token that a layer's element-wise kernels but the activation move on one rank, one entry a kernel.

        Two norms with their residual (read and write both streams), rotary embedding of queries and keys in place,
        and the write of keys and values to the cache; the norm of queries and keys where the model has it.
        """
        hidden, heads = self._model.hidden_size, self._query_size + self._key_size
        norm = 4 * hidden * ACTIVATION_BYTES
        rotary = 2 * heads * ACTIVATION_BYTES
        cache = 2 * self._key_size * ACTIVATION_BYTES + self._kv_bytes
        kernels = (norm, rotary, cache, norm)
        return (*kernels, rotary) if self._model.qk_norm else kernels

    def mlp_elementwise_bytes(self) -> float:
        """Bytes a token that the gated activation of a dense layer moves on one rank."""
        return 3 * self._model.intermediate_size / self._ranks * ACTIVATION_BYTES

    def streamed_weight_bytes(self, tokens: int = 1) -> float:
        """Bytes of weights that one rank of each stage reads in a step of `tokens` tokens, all stages together."""
        model = self._model
        attention = sum(n * k for n, k in self.attention_gemms())
        layers = model.layers * attention * self._narrow.bytes
        if model.dense_layers:
            layers += model.dense_layers * sum(n * k for n, k in self.mlp_gemms()) * self._narrow.bytes
        if self.experts is not None:
            layers += model.expert_layers * self.experts.weight_bytes(tokens)
        return layers + model.embedding_parameters / self._ranks * ACTIVATION_BYTES

    def describe(self) -> Mapping[str, Factor]:
        """The data-sheet figures used."""
        gpu = self._gpu
        figures = {"memory_bandwidth": gpu.memory_bandwidth, "link_bandwidth": gpu.link_bandwidth}
        for dtype in ("bfloat16", "float16", "fp8"):  # the others are never computed in
            if dtype in gpu.dense_flops:
                figures[f"dense_flops.{dtype}"] = gpu.dense_flops[dtype]
        described = {
            f"gpu.{name}": Factor(value, "data sheet", gpu.sources.get(name.split(".")[0], gpu.name))
            for name, value in figures.items()
        }
        if self.experts is not None:
            described["routing_skew"] = _described_skew(self._skew)
        return described

    def expert_spread(self, dealt: bool) -> ExpertSpread:
        """How far measured kernels of experts lie from the roofline's, see `EXPERT_SPREAD`."""
        return EXPERT_SPREAD[self._narrow.bits, dealt]

    @property
    def idle_factors(self) -> frozenset[str]:
        """Efficiency factors that nothing here depends on."""
        widening = () if self._narrow.widened else ("weight_only_compute",)
        wide, narrow = (
            ("expert_compute", "expert_latency"),
            ("narrow_expert_compute", "narrow_expert_latency"),
        )
        if self.experts is None:
            return frozenset((*widening, *wide, *narrow, "expert_bandwidth"))
        return frozenset((*widening, *(wide if self._narrow.narrow else narrow)))

    def _layer_seconds(
        self, tokens: int, products: tuple[tuple[float, float], ...], kernels: tuple[float, ...]
    ) -> float:
        layer = sum(self._kernels.product(tokens, n, k, self._narrow) for n, k in products)
        layer += sum(self._kernels.elementwise(tokens * size) for size in kernels)
        return layer + 2 * self._kernels.ring(2, tokens * self._model.hidden_size * ACTIVATION_BYTES)


def _described_skew(skew: float) -> Factor:
    if skew:
        return Factor(skew, "stated", "the scenario")
    return Factor(skew, "assumed", "tokens choose their experts uniformly")
