"""Steps of every kind inside what one profile or several were measured for."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import product

import numpy as np

from capsim.catalog import Model, load_model, model_names
from capsim.cost import BatchShape, Chunk, Profile, ProfileCost

_FINE, _COARSE = 2.0, 8.0
"""Ratio of neighbouring counts: of the axis that matters most in a regime, and of the others."""
_FIRST_PAST = 256
"""Tokens of the shortest past above 0: less has no weight in a step."""


def model_of(profile: Profile) -> Model:
    """The profile's model from the catalog, or as far as the profile describes it."""
    stated = profile.provenance
    if stated.model in model_names():
        return load_model(stated.model)
    shapes = stated.shapes
    return Model(
        name=stated.model,
        attention="gqa",
        layers=shapes["layers"],
        hidden_size=shapes["hidden_size"],
        intermediate_size=shapes["intermediate_size"],
        attention_heads=shapes["attention_heads"],
        kv_heads=shapes["kv_heads"],
        head_dim=shapes["head_dim"],
        vocabulary_size=shapes["vocabulary_size"],
        tied_embeddings=False,  # has no part in a step's cost, and neither has the longest sequence
        max_position_embeddings=1 << 20,
        source="the profile",
        experts=stated.experts,
    )


def cost_of(profile: Profile) -> ProfileCost:
    """The step cost of what the profile was measured for."""
    stated = profile.provenance
    return ProfileCost(
        profile,
        model_of(profile),
        stated.dtype,
        stated.kv_dtype,
        stated.tensor_parallel_size,
        expert_parallel=stated.expert_parallel,
    )


def equal_batch(new: int, past: int, decodes: int, context: int) -> BatchShape:
    """One chunk, or none where `new` is 0, and decodes of one context."""
    chunks = (Chunk(new, past),) if new else ()
    total = decodes * context
    return BatchShape(
        chunks, decodes, total, squared_context=total * context, largest_context=context if decodes else 0
    )


def probe_batches(costs: Sequence[ProfileCost]) -> tuple[BatchShape, ...]:
    """Prefill, decode and mixed steps on geometric grids, all of them inside the range of every profile."""
    axes = {name: [cost.profile.ranges[name] for cost in costs] for name in costs[0].profile.ranges}
    common = {
        name: (max(low for low, _ in each), min(high for _, high in each)) for name, each in axes.items()
    }
    fine = {name: _between(*bounds, _FINE) for name, bounds in common.items()}
    coarse = {name: _between(*bounds, _COARSE) for name, bounds in common.items()}
    shapes = [
        *((new, past, 0, 0) for new, past in product(fine["new"], coarse["past"])),
        *((0, 0, decodes, context) for decodes, context in product(fine["decodes"], fine["context"])),
        *product(coarse["new"], coarse["past"], coarse["decodes"], coarse["context"]),
    ]
    batches = [equal_batch(*shape) for shape in shapes]
    return tuple(batch for batch in batches if not any(is_outside(cost, batch) for cost in costs))


def is_outside(cost: ProfileCost, batch: BatchShape) -> bool:
    """Whether a step lies outside what the profile was measured for."""
    new = sum(chunk.new for chunk in batch.chunks)
    past = sum(chunk.past for chunk in batch.chunks)
    figures = (new, len(batch.chunks), past, batch.decodes, batch.context)
    return bool(cost.outside(*(np.array([figure]) for figure in figures))[0])


def _between(low: int, high: int, ratio: float) -> list[int]:
    """Counts from the lowest to the highest, at most `ratio` apart; none where there are none in common."""
    if high < low:
        return []
    first = low or min(high, _FIRST_PAST) or 1
    steps = math.ceil(math.log(high / first, ratio)) if high > first else 0
    inner: Iterable[int] = (
        round(first * (high / first) ** (step / max(1, steps))) for step in range(steps + 1)
    )
    return sorted({low, *inner} if high > 0 else {low})
