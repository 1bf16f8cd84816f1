"""What share of its data sheet a GPU reaches, read off a profile: the roofline's factors, measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from calibrate.grouped import ExpertTimes
from capsim.catalog import Gpu, Model
from capsim.catalog.model import DTYPE_BYTES
from capsim.cost import Profile

EXPERTS = "moe"
"""The chosen experts of a layer, as profiles name them."""
GEMMS = ("qkv_proj", "o_proj", "gate_up_proj", "down_proj")
"""A layer's matrix products, as profiles name them."""
CHUNK = 2048
"""Tokens of the prompt whose attention is looked at: inside every profile, and long enough to be arithmetic."""
BATCH = 64
CONTEXT = 2048
"""Decodes and their context whose attention is looked at: a usual batch of a chat service, inside every profile."""


@dataclass(frozen=True)
class Spread:
    """One factor over several profiles: median, least and most, and how many profiles it was read off."""

    median: float
    least: float
    most: float
    profiles: int


def efficiencies(
    profiles: Iterable[Profile], models: Mapping[str, Model], gpus: Mapping[str, Gpu]
) -> list[dict[str, float]]:
    """Factors of each profile of a dense model whose model and GPU are known by name.

    A mixture of experts is left out: of its matrix products only those around attention are a dense layer's, and they
    are too small to show what a GPU reaches. So is a profile that was derived from another GPU's kernels: it shows
    nothing that the other one does not.
    """
    return [
        efficiency_of(profile, models[profile.provenance.model], gpus[profile.provenance.gpu])
        for profile in profiles
        if profile.provenance.experts is None
        and not profile.provenance.derived_from
        and profile.provenance.model in models
        and profile.provenance.gpu in gpus
    ]


def efficiency_of(profile: Profile, model: Model, gpu: Gpu) -> dict[str, float]:
    """Factors of `capsim.cost.Efficiency` that a profile of a dense model shows; shares of the data sheet.

    ``gemm_compute``: a layer's products at the most tokens measured. ``gemm_bandwidth``: their weights at one token.
    ``attention_compute``: causal attention of one prompt of `CHUNK` tokens. ``attention_bandwidth``: KV read by `BATCH`
    decodes of `CONTEXT` tokens. ``attention_latency``, seconds: one sequence of the shortest context.
    """
    stated = profile.provenance
    ranks = stated.tensor_parallel_size
    flops = gpu.dense_flops.get(stated.dtype, gpu.dense_flops["bfloat16"])
    gemms = [operator for operator in profile.operators if operator.name in GEMMS]
    weights = model.layers * (model.attention_parameters + model.mlp_parameters) / ranks
    tokens = profile.ranges["tokens"][1]
    seconds = {count: sum(gemm.at(count) for gemm in gemms) for count in (1, tokens)}
    attention = profile.attention
    heads = model.attention_heads * model.head_dim / ranks
    kv_bytes = 2 * model.kv_heads_of_rank(ranks) * model.head_dim * DTYPE_BYTES[stated.kv_dtype]
    return {
        "gemm_compute": 2 * tokens * weights / seconds[tokens] / flops,
        "gemm_bandwidth": weights * DTYPE_BYTES[stated.dtype] / seconds[1] / gpu.memory_bandwidth,
        "attention_compute": 2
        * heads
        * CHUNK
        * (CHUNK + 1)
        / attention.prefill.row(CHUNK).at(0)
        / gpu.dense_flops["bfloat16"],
        "attention_bandwidth": BATCH
        * CONTEXT
        * kv_bytes
        / attention.decode.row(BATCH).at(CONTEXT)
        / gpu.memory_bandwidth,
        "attention_latency": attention.decode.values[0][0],
    }


def expert_efficiencies(
    profiles: Iterable[Profile], models: Mapping[str, Model], gpus: Mapping[str, Gpu]
) -> list[dict[str, float]]:
    """Factors of `capsim.cost.Efficiency` that each profile with experts shows, fitted to all of its experts' times.

    Left out: experts that are dealt out to ranks, whose busiest rank has more than its share, and what `efficiencies`
    leaves out. A share may come out above 1: where routing is uneven fewer weights are read than with uniform routing.
    """
    return [
        _expert_times(profile, gpus[profile.provenance.gpu]).fitted()
        for profile in profiles
        if profile.provenance.experts is not None
        and profile.provenance.expert_parallel_size == 1
        and not profile.provenance.derived_from
        and profile.provenance.model in models
        and profile.provenance.gpu in gpus
    ]


def _expert_times(profile: Profile, gpu: Gpu) -> ExpertTimes:
    stated = profile.provenance
    experts = stated.experts
    assert experts is not None
    chosen = next(operator for operator in profile.operators if operator.name == EXPERTS)
    tokens = np.array(chosen.seconds.points, dtype=np.int64)
    shape = {
        "hidden": stated.shapes["hidden_size"],
        "inter": experts.intermediate_size,
        "topk": experts.per_token,
        "experts": experts.count,
        "tp": stated.tensor_parallel_size,
        "ep": 1,
    }
    columns = {
        **{name: np.full(len(tokens), value) for name, value in shape.items()},
        "tokens": tokens,
        "seconds": np.array(chosen.seconds.values),
        "routing": np.full(len(tokens), stated.routing),
    }
    return ExpertTimes.of(columns, gpu, f"{stated.engine} {stated.engine_version}", stated.dtype)


def spread(found: Sequence[Mapping[str, float]]) -> dict[str, Spread]:
    """Each factor over several profiles."""
    names = found[0] if found else {}
    result = {}
    for name in names:
        values = sorted(each[name] for each in found)
        middle = len(values) // 2
        median = values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) / 2
        result[name] = Spread(median, values[0], values[-1], len(values))
    return result
