from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Gpu:
    """A GPU as its data sheet and its driver state it.

    Attributes:
        name: catalog name, e.g. ``h200``.
        memory: bytes that the driver reports in total (less than the data sheet's round figure).
        memory_bandwidth: bytes per second, data sheet.
        dense_flops: operations per second of the matrix units by compute dtype (``bfloat16``, ``float16``, ``fp8``,
            ``fp4``; of ``int8`` integer operations), accumulating in 32 bits, dense, not the sparse figure, data
            sheet. A GPU without arithmetic of a dtype lacks the entry.
        link_bandwidth: bytes per second between two GPUs of one node, one direction.
        sources: where each figure comes from, by attribute name.
        link_per_peer: each pair of GPUs has a link of its own (a mesh), so that a group of p GPUs uses p - 1 links
            at once; otherwise a GPU reaches all others through one switch or bus.
    """

    name: str
    memory: int
    memory_bandwidth: float
    dense_flops: Mapping[str, float]
    link_bandwidth: float
    sources: Mapping[str, str]
    link_per_peer: bool = False
