"""The plain replica, told what a simulation is told."""

from __future__ import annotations

from typing import Any

from capsim.engine import EngineConfiguration
from capsim.workload.requests import Requests
from tests.reference import ReferenceSequence


def plain_limits(engine: EngineConfiguration) -> dict[str, Any]:
    """Arguments of `ReferenceReplica` for an engine without tiers and windows."""
    return {
        "usable_blocks": engine.usable_blocks,
        "block_size": engine.block_size,
        "max_num_seqs": engine.max_num_seqs,
        "max_num_batched_tokens": engine.max_num_batched_tokens,
        "enable_prefix_caching": engine.enable_prefix_caching,
    }


def plain_sequences(requests: Requests) -> list[ReferenceSequence]:
    """A sequence for each request, in order of arrival, with the prefixes that it shares."""
    assert requests.prefixes is not None
    columns = (requests.arrival.tolist(), requests.prompt.tolist(), requests.output.tolist())
    return [
        ReferenceSequence(row, *values, path=requests.prefixes.path(row))
        for row, values in enumerate(zip(*columns, strict=True))
    ]
