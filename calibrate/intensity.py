"""FLOPs and bytes of a profile's kernels: where each stands below the roofline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from calibrate.probe import model_of
from capsim.catalog import load_gpu
from capsim.catalog.model import DTYPE_BYTES
from capsim.cost import RooflineCost

if TYPE_CHECKING:
    from calibrate.show import Shown

ATTENTION_GEMMS = ("qkv_proj", "o_proj")
GEMMS = (*ATTENTION_GEMMS, "gate_up_proj", "down_proj")
CONTEXT = 2048
"""Tokens of context of the decodes that are drawn."""
SHORTEST = 16
"""Tokens of the shortest chunk that is drawn: below it there is only the latency of a kernel."""
_ACTIVATION_BYTES = 2


@dataclass(frozen=True)
class Point:
    """One shape of a kernel.

    Attributes:
        name: its size, as it is written beside it.
        intensity: FLOPs per byte of memory traffic.
        flops: achieved, per second.
    """

    name: str
    intensity: float
    flops: float


@dataclass(frozen=True)
class Points:
    """Shapes of one kind of kernel, by size."""

    name: str
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Ceiling:
    """A limit of bytes per second, then of FLOPs per second, and how it is drawn."""

    name: str
    bandwidth: float
    flops: float
    grey: str
    line: str


def ceilings(shown: Shown) -> tuple[Ceiling, ...]:
    """The data sheet, and what the stated efficiencies leave of it for matrix products and for attention."""
    stated = shown.profile.provenance
    gpu, efficiency = load_gpu(stated.gpu), _roofline(shown).efficiency
    wide = gpu.dense_flops["bfloat16"]
    peak = gpu.dense_flops.get(stated.dtype, wide)
    bandwidth = gpu.memory_bandwidth
    return (
        Ceiling(
            f"data sheet: {bandwidth / 1e12:g} TB/s, {peak / 1e12:,.0f} TFLOP/s", bandwidth, peak, "0.0", "-"
        ),
        Ceiling(
            f"matrix products, {efficiency.gemm_bandwidth:.0%} and {efficiency.gemm_compute:.0%} of it",
            bandwidth * efficiency.gemm_bandwidth,
            peak * efficiency.gemm_compute,
            "0.35",
            "--",
        ),
        Ceiling(
            f"attention, {efficiency.attention_bandwidth:.0%} and {efficiency.attention_compute:.0%} of bfloat16",
            bandwidth * efficiency.attention_bandwidth,
            wide * efficiency.attention_compute,
            "0.6",
            ":",
        ),
    )


def has_kernels(shown: Shown) -> bool:
    """Whether kernels were measured one by one, and not whole steps."""
    needed = GEMMS if shown.profile.provenance.experts is None else ATTENTION_GEMMS
    return set(needed) <= {operator.name for operator in shown.profile.operators}


def gemm_points(shown: Shown) -> Points:
    """All matrix products of the layers together, by tokens; the whole token part where the profile has no others.

    Of a model with experts those around attention alone, since which experts a step touches is not in a profile; none
    where it has no others than whole steps.
    """
    profile, operators = shown.profile, _roofline(shown).operators
    gemms, names = operators.attention_gemms(), set(ATTENTION_GEMMS)
    name = "matrix products around attention of all layers, by tokens"
    if operators.experts is None:
        gemms, names = (*gemms, *operators.mlp_gemms()), set(GEMMS)
        name = "matrix products of all layers, by tokens"
    elif not has_kernels(shown):
        return Points("", ())
    chosen = [operator for operator in profile.operators if operator.name in names]
    if not has_kernels(shown):
        chosen = [operator for operator in profile.operators if operator.per == "tokens"]
        name = "all that depends on tokens (matrix products' FLOPs), by tokens"
    layers = profile.provenance.shapes["layers"]
    weight_bytes = DTYPE_BYTES[profile.provenance.dtype]
    points = []
    for tokens in _powers(*profile.ranges["tokens"]):
        flops = layers * sum(2 * tokens * n * k for n, k in gemms)
        moved = layers * sum(n * k * weight_bytes + tokens * (n + k) * _ACTIVATION_BYTES for n, k in gemms)
        seconds = sum(operator.at(tokens) for operator in chosen)
        if seconds > 0:
            points.append(Point(f"{tokens:,}", flops / moved, flops / seconds))
    return Points(name, tuple(points))


def prefill_points(shown: Shown) -> Points:
    """Attention of one chunk without a past, by its tokens."""
    profile = shown.profile
    query, key, kv_bytes = _attention_sizes(shown)
    points = []
    shortest, longest = profile.ranges["new"]
    for new in _powers(max(shortest, SHORTEST), longest):
        seconds = profile.attention.times * profile.attention.prefill.row(new).at(0)
        if seconds > 0:
            layers = profile.provenance.shapes["layers"]
            flops = layers * 4 * query * new * (new + 1) / 2
            moved = layers * new * (2 * query * _ACTIVATION_BYTES + 2 * key * kv_bytes)
            points.append(Point(f"{new:,}", flops / moved, flops / seconds))
    return Points("prefill attention without a past, by tokens", tuple(points))


def decode_points(shown: Shown) -> Points:
    """Attention of decodes of one context, by their number."""
    profile = shown.profile
    query, key, kv_bytes = _attention_sizes(shown)
    low, high = profile.ranges["context"]
    context = min(max(CONTEXT, low), high)
    points = []
    for decodes in _powers(*profile.ranges["decodes"]):
        seconds = profile.attention.times * profile.attention.decode.row(decodes).at(context)
        if seconds > 0:
            layers = profile.provenance.shapes["layers"]
            flops = layers * 4 * query * decodes * context
            moved = layers * decodes * (2 * key * kv_bytes * context + 2 * query * _ACTIVATION_BYTES)
            points.append(Point(f"{decodes:,}", flops / moved, flops / seconds))
    return Points(f"decode attention at {context:,} tokens, by sequences", tuple(points))


def _attention_sizes(shown: Shown) -> tuple[int, int, int]:
    """Query elements and key elements of one rank, and bytes of one of them in the cache."""
    model, stated = model_of(shown.profile), shown.profile.provenance
    ranks = stated.tensor_parallel_size
    query = model.attention_heads // ranks * model.head_dim
    return query, model.kv_heads_of_rank(ranks) * model.head_dim, DTYPE_BYTES[stated.kv_dtype]


def _roofline(shown: Shown) -> RooflineCost:
    if shown.roofline is None:
        raise ValueError("the GPU is not in the catalog")
    return shown.roofline


def _powers(low: int, high: int) -> list[int]:
    """Powers of two within these bounds."""
    return [1 << power for power in range(high.bit_length()) if low <= 1 << power <= high]
