"""Whole steps composed from a profile's tables, beside the roofline of the same GPU."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from capsim.catalog import Gpu, Model
from capsim.cost import BatchShape, Chunk, Profile, ProfileCost, RooflineCost

PREFILLS = (512, 2048, 8192)
"""Tokens of one prompt, computed in one step."""
DECODES = (1, 64, 256)
CONTEXT = 2048
"""Context of each decode, tokens."""


@dataclass(frozen=True)
class Composed:
    """One step.

    Attributes:
        name: its shape in words.
        batch: its shape.
        seconds: by the tables, the host included.
        roofline: by the data sheet, the host not included; None where the GPU is not in the catalog.
        outside: whether the shape lies outside what was measured.
    """

    name: str
    batch: BatchShape
    seconds: float
    roofline: float | None
    outside: bool


def composed_steps(profile: Profile, model: Model, gpu: Gpu | None) -> tuple[Composed, ...]:
    """Prefill of `PREFILLS` tokens, and `DECODES` sequences at `CONTEXT`.

    Raises:
        BadInput: the profile is of another model.
    """
    stated = profile.provenance
    ranks, dtypes = stated.tensor_parallel_size, (stated.dtype, stated.kv_dtype)
    cost = ProfileCost(profile, model, *dtypes, ranks, expert_parallel=stated.expert_parallel)
    roofline = None
    if gpu is not None:
        roofline = RooflineCost(model, gpu, ranks, *dtypes, expert_parallel=stated.expert_parallel)
    shapes = {f"prefill of {tokens:,} tokens": BatchShape((Chunk(tokens, 0),), 0, 0) for tokens in PREFILLS}
    shapes |= {
        f"decode of {count} at {CONTEXT:,}": BatchShape(
            (), count, count * CONTEXT, 1, 0, count * CONTEXT**2, CONTEXT
        )
        for count in DECODES
    }
    return tuple(
        Composed(
            name,
            batch,
            cost.step(batch),
            None if roofline is None else roofline.step(batch) - roofline.efficiency.host_overhead,
            _outside(cost, batch),
        )
        for name, batch in shapes.items()
    )


def _outside(cost: ProfileCost, batch: BatchShape) -> bool:
    new = sum(chunk.new for chunk in batch.chunks)
    past = sum(chunk.past for chunk in batch.chunks)
    figures = (new, len(batch.chunks), past, batch.decodes, batch.context)
    columns = [np.asarray([figure], dtype=np.int64) for figure in figures]
    return bool(cost.outside(*columns)[0])
