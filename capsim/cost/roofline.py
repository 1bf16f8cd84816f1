"""Step cost from data sheets: each operator takes the longer of its arithmetic and its memory traffic."""

from __future__ import annotations

from collections.abc import Mapping

from capsim.catalog.gpu import Gpu
from capsim.catalog.model import Model
from capsim.cost.efficiency import Efficiency
from capsim.cost.memo import Memo
from capsim.cost.operators import Operators
from capsim.cost.shape import BatchShape
from capsim.cost.step import UNBOUNDED, Factor, Line, StepCost


class RooflineCost(StepCost):
    """Analytic step cost of a transformer, dense or with experts, as engines execute it.

    A step is the sum of: what depends on its tokens (each layer's four matrix products, element-wise kernels and
    two all-reduces), what depends on its sequences (output projection and sampling), attention, and the host.
    Attention is one kernel a layer for all sequences of the batch (FlashAttention over ragged lengths): chunks by
    their FLOPs or KV bytes, decodes by the KV they read, and never less than the kernel's latency. For a fixed number
    of decodes a step is therefore flat in the context up to one knee, and linear from there on. Layers with a window
    have a kernel of their own, and a context that ends at the window.

    With a pipeline a step is one pass of one batch through all stages and the transfers between them: the latency of a
    batch. That several batches are on their way at once, each on another stage, is not modelled, so the throughput of
    a pipeline cannot be read from it.

    Args:
        model: dense or with experts, with grouped-query attention, in some layers over a window.
        gpu: its data sheet; FLOPs of ``bfloat16`` are needed, and of ``fp8`` where the GPU computes it.
        tensor_parallel_size: GPUs that share each layer.
        weight_dtype: ``bfloat16``, ``float16``, ``fp8``, or weight-only ``int8`` or ``int4``, which save bytes and
            compute at 16 bits; so does fp8 on a GPU without fp8 arithmetic.
        kv_dtype: ``bfloat16``, ``float16`` or ``fp8``.
        efficiency: shares of the data sheet that are reached.
        expert_parallel: whole experts are dealt out to the ranks, instead of each being split over all.
        pipeline_parallel_size: stages that hold the layers, each on as many GPUs as share a layer.
        routing_skew: how unevenly tokens choose experts, see `Routing`; 0 is uniform.

    Raises:
        BadInput: an attention kind, a dtype or a degree of parallelism that is not covered.
    """

    source = "analytic"

    def __init__(
        self,
        model: Model,
        gpu: Gpu,
        tensor_parallel_size: int = 1,
        weight_dtype: str = "bfloat16",
        kv_dtype: str = "bfloat16",
        efficiency: Efficiency | None = None,
        *,
        expert_parallel: bool = False,
        pipeline_parallel_size: int = 1,
        routing_skew: float = 0.0,
    ) -> None:
        self.efficiency = efficiency or Efficiency()
        self.operators = Operators(
            model,
            gpu,
            tensor_parallel_size,
            weight_dtype,
            kv_dtype,
            self.efficiency,
            expert_parallel=expert_parallel,
            pipeline_parallel_size=pipeline_parallel_size,
            routing_skew=routing_skew,
        )
        stages = f" in {pipeline_parallel_size} stages" if pipeline_parallel_size > 1 else ""
        dealt = expert_parallel and tensor_parallel_size > 1
        experts = ", expert-parallel" if expert_parallel and model.experts is not None else ""
        self.description = (
            f"roofline of {model.name} ({weight_dtype} weights, {kv_dtype} KV) on "
            f"{tensor_parallel_size * pipeline_parallel_size} x {gpu.name}{stages}{experts},"
            " from data sheets and stated efficiencies"
        )
        if model.experts is not None:
            spread = self.operators.expert_spread(dealt)
            self.description += (
                f"; of experts' kernels that were timed, four in five take {spread.low:g} to {spread.high:g} times "
                "what it computes"
            )
        attention, self._windowed = self.operators.attention, self.operators.windowed_attention
        self._per_context, self._per_pair = attention.per_context, attention.per_pair
        self._floor, self._knee = attention.floor, attention.knee
        self.needs_window = self._windowed is not None
        self._token_part = Memo(self.operators.token_seconds)
        self._sequence_part = Memo(self._sequence_seconds)
        self._decode_part = Memo(self._decode_seconds)

    def step(self, batch: BatchShape) -> float:
        """Seconds of one step with this batch."""
        chunks, decodes, context, query_tokens, windowed_context, _, _, _ = batch
        rows = decodes * query_tokens
        # Written out for the layers that see everything: as a call it would be half the look-up.
        attention, tokens = self._per_context * context, rows
        for new, past in chunks:
            tokens += new
            arithmetic = self._per_pair * (new * (past + 0.5 * (new + 1)))
            reading = self._per_context * (past + new)
            attention += arithmetic if arithmetic > reading else reading
        attention = max(attention, self._floor)
        if self._windowed is not None:
            attention += self._windowed.seconds(chunks, windowed_context)
        if not chunks:
            return self._decode_part[rows] + attention
        return self._token_part[tokens] + self._sequence_part[rows + len(chunks)] + attention

    def line(self, batch: BatchShape) -> Line:
        """Times of the steps from this pure-decode batch on: flat up to the knee, then one line without end."""
        _, decodes, context, query_tokens, windowed_context, _, _, filling = batch
        base = self._decode_part[decodes * query_tokens]
        if context > self._knee:
            attention, slope, steps = self._per_context * context, self._per_context * decodes, UNBOUNDED
        else:
            attention, slope, steps = self._floor, 0.0, (self._knee - context) // decodes + 1
        if self._windowed is not None:
            windowed = self._windowed.line(windowed_context, filling)
            attention += windowed.first
            slope += windowed.slope
            steps = min(steps, windowed.steps)
        return Line(base + attention, slope, steps)

    def describe(self) -> Mapping[str, Factor]:
        """Data-sheet figures, and the efficiency factors that play a part."""
        idle = self.operators.idle_factors
        factors = {name: factor for name, factor in self.efficiency.describe().items() if name not in idle}
        return {**self.operators.describe(), **factors}

    def _sequence_seconds(self, sequences: int) -> float:
        return self.operators.sequence_seconds(sequences) + self.efficiency.host_overhead

    def _decode_seconds(self, rows: int) -> float:
        """What a pure-decode step takes beside attention: each of its tokens is also a row of logits."""
        return self._token_part[rows] + self._sequence_part[rows]
