"""What a source of kernel tables gives: columns in seconds and bytes, selected for one step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrate.provenance import SourceFile

Columns = Mapping[str, NDArray[np.float64]]
"""Measurements: a column for each axis and ``seconds``, all of shape (rows,)."""


@dataclass(frozen=True)
class Heads:
    """Attention of one rank.

    Attributes:
        query, key_value: heads.
        size: elements of a head.
        kv_dtype: of the KV cache.
    """

    query: int
    key_value: int
    size: int
    kv_dtype: str


class Source(ABC):
    """The tables of one GPU and one engine; each method selects what one step needs.

    Attributes:
        path: where they are.
        gpu_name: the GPU as the source names it; empty where it does not.
        engine, engine_version: whose kernels were measured.
        release: the package that published them.
        files: what was read so far.
        notes: what a profile has to say of how the tables came about, a sentence each.
        attributions: of figures that stand in for what the tables lack, where there are any.
    """

    gpu_name: str = ""
    engine_version: str
    release: str = "aiconfigurator"

    def __init__(self, path: Path, engine: str) -> None:
        self.path = path
        self.engine = engine
        self.files: list[SourceFile] = []
        self.notes: list[str] = []
        self.attributions: list[str] = []

    @abstractmethod
    def gemm(self, dtype: str) -> Columns:
        """Linear layers by ``m``, ``n``, ``k``: an (m, k) times (k, n) product; no rows where the dtype is absent."""

    @abstractmethod
    def prefill(self, heads: Heads) -> Columns:
        """Causal attention of one prompt without past, by ``new`` tokens."""

    @abstractmethod
    def decode(self, heads: Heads) -> Columns:
        """Attention of one new token a sequence by ``decodes`` and ``context``, the new token included."""

    @abstractmethod
    def experts(self, dtype: str) -> Mapping[str, NDArray[Any]]:
        """Fused experts of one layer, see `ExpertTable`; no rows where the dtype is absent."""

    @abstractmethod
    def all_reduce(self, ranks: int) -> tuple[Columns, Columns]:
        """All-reduces of 16-bit elements by ``bytes``: the engine's own inside a CUDA graph, and NCCL's."""


def in_graph(mode: str) -> bool:
    """Whether the tables mean an all-reduce inside a CUDA graph, as serving engines run them."""
    return mode.lower().endswith("graph") or mode.lower() == "trtllm"
