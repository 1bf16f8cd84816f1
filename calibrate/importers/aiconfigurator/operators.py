"""The other operators of a step: all-reduces from their table, element-wise kernels by formula."""

from __future__ import annotations

import numpy as np

from calibrate.draft import Curve, Operator
from calibrate.importers.aiconfigurator.ceilings import Journal
from calibrate.importers.aiconfigurator.gemm import MOST, mlps
from calibrate.importers.aiconfigurator.source import Columns
from calibrate.table import pivot
from capsim.catalog import Gpu, Model
from capsim.catalog.model import DTYPE_BYTES
from capsim.cost import Efficiency
from capsim.errors import BadInput

_ACTIVATION_BYTES = 2  # activations and logits are 16-bit whatever the weights are


def all_reduce(own: Columns, nccl: Columns, model: Model, ranks: int, journal: Journal) -> Operator:
    """The all-reduce of a batch's activations: the engine's own as far as it was measured, NCCL's beyond.

    Raises:
        BadInput: neither was measured.
    """
    reach = own["bytes"].max() if len(own["bytes"]) else 0.0
    beyond = nccl["bytes"] > reach
    sizes = np.concatenate([own["bytes"], nccl["bytes"][beyond]])
    seconds = np.concatenate([own["seconds"], nccl["seconds"][beyond]])
    axes, middle = pivot({"bytes": sizes}, seconds)
    if len(middle) < 2:
        raise BadInput(f"no all-reduce over {ranks} GPUs was measured")
    message = model.hidden_size * _ACTIVATION_BYTES
    most = axes["bytes"][-1] // message
    counts = np.unique([min(1 << power, most) for power in range(most.bit_length() + 1)])
    values = journal.settled(
        "all_reduce", np.interp(counts * message, axes["bytes"], middle), np.zeros(len(counts))
    )
    after = "MLP" if model.experts is None else "layer's experts"
    source = "the engine's own inside a CUDA graph" + (", NCCL's beyond" if beyond.any() else "")
    journal.sentences.append(
        f"all_reduce is {source}, up to {most} tokens; one after each attention, each {after} and the embedding"
    )
    return Operator("all_reduce", "tokens", 2 * model.layers + 1, "measured", Curve.of(counts, values))


def elementwise_operators(model: Model, gpu: Gpu, ranks: int, kv_dtype: str) -> list[Operator]:
    """What the source has no times for: bytes over a share of the data sheet's bandwidth, or a kernel's latency.

    The bytes are those of capsim's roofline. Over several ranks logits are gathered over the links.
    """
    efficiency = Efficiency()
    bandwidth = gpu.memory_bandwidth * efficiency.elementwise_bandwidth
    query = model.attention_heads // ranks * model.head_dim
    key = model.kv_heads_of_rank(ranks) * model.head_dim
    wide, layers = _ACTIVATION_BYTES, model.layers
    rotary = 2 * (query + key) * wide
    kernels = [
        ("embedding", "tokens", 1, 2 * model.hidden_size * wide),
        ("norm", "tokens", 2 * layers + 1, 4 * model.hidden_size * wide),
        ("rotary", "tokens", layers, rotary),
        ("kv_cache_write", "tokens", layers, 2 * key * (wide + DTYPE_BYTES[kv_dtype])),
        *(
            (f"{prefix}activation", "tokens", times, 3 * columns * wide)
            for prefix, (columns, times) in mlps(model, ranks).items()
        ),
        ("sampler", "sequences", 1, model.vocabulary_size * 10),
    ]
    if model.qk_norm:
        kernels.insert(2, ("qk_norm", "tokens", layers, rotary))
    operators = [
        Operator(
            name, per, times, "assumed", _bounded(efficiency.kernel_latency, moved / bandwidth, MOST[per])
        )
        for name, per, times, moved in kernels
    ]
    if ranks > 1:
        links = gpu.link_bandwidth * efficiency.link_bandwidth
        sent = (ranks - 1) / ranks * model.vocabulary_size * wide / links
        counts = (1, MOST["sequences"])
        gather = Curve.of(counts, (efficiency.all_reduce_latency + count * sent for count in counts))
        operators.append(Operator("logits_gather", "sequences", 1, "assumed", gather))
    return operators


def _bounded(latency: float, each: float, most: int) -> Curve:
    """``max(latency, count * each)`` up to a count: a point on either side of the knee is enough."""
    knee = int(latency / each)
    counts = sorted({1, most} | {count for count in (knee, knee + 1) if 1 < count < most})
    return Curve.of(counts, (max(latency, count * each) for count in counts))
