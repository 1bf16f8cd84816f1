"""Operators that a source lacks, filled from data sheets by a stated rule and tagged assumed."""

from __future__ import annotations

from calibrate.draft import Curve, Operator
from capsim.catalog import Gpu, Model
from capsim.cost import Efficiency, RooflineCost

_ACTIVATION_BYTES = 2


def all_reduce(model: Model, gpu: Gpu, ranks: int, tokens: int) -> tuple[Operator, str]:
    """The two all-reduces of a layer under tensor parallelism, and the note that says so.

    A ring sends ``2 (p - 1) / p`` of the message over every link, after a latency; both efficiencies are those of
    `capsim.cost.Efficiency`. Source of the ring's traffic: Patarasuk and Yuan, Bandwidth optimal all-reduce
    algorithms for clusters of workstations (2009).

    Args:
        model: gives the message, one hidden vector a token.
        gpu: gives the link's bandwidth.
        ranks: at least 2.
        tokens: the curve's last count; it is a line.
    """
    efficiency = Efficiency()
    bandwidth = gpu.link_bandwidth * efficiency.link_bandwidth
    per_token = 2 * (ranks - 1) / ranks * model.hidden_size * _ACTIVATION_BYTES / bandwidth
    seconds = [efficiency.all_reduce_latency + count * per_token for count in (1, tokens)]
    operator = Operator("all_reduce", "tokens", 2 * model.layers, "assumed", Curve.of((1, tokens), seconds))
    note = (
        "all_reduce was not measured: assumed as a ring over the data sheet's "
        f"{gpu.link_bandwidth / 1e9:g} GB/s at an efficiency of {efficiency.link_bandwidth:g} after "
        f"{efficiency.all_reduce_latency * 1e6:g} us."
    )
    return operator, note


def lm_head(model: Model, gpu: Gpu, ranks: int, dtype: str, sequences: int) -> tuple[Operator, str]:
    """Output projection and sampling as the roofline prices them, and the note that says so.

    Args:
        model: gives the sizes.
        gpu: gives the data sheet.
        ranks: of tensor parallelism.
        dtype: of the weights.
        sequences: the curve's last count.
    """
    operators = RooflineCost(model, gpu, ranks, dtype).operators
    counts = sorted({min(1 << power, sequences) for power in range(sequences.bit_length() + 1)})
    seconds = [operators.sequence_seconds(count) for count in counts]
    operator = Operator("lm_head", "sequences", 1, "assumed", Curve.of(counts, seconds))
    return (
        operator,
        "lm_head and sampler were not measured: assumed as the roofline of the data sheet has them.",
    )
