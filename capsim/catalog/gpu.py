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
        dense_flops: floating-point operations per second by compute dtype (``bfloat16``, ``fp8``), dense, not
            the sparse figure, data sheet.
        link_bandwidth: bytes per second between two GPUs of one node, one direction.
        sources: where each figure comes from, by attribute name.
    """

    name: str
    memory: int
    memory_bandwidth: float
    dense_flops: Mapping[str, float]
    link_bandwidth: float
    sources: Mapping[str, str]
