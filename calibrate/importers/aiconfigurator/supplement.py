"""Decode attention that somebody else measured on the same GPU, for heads that the tables lack."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrate.importers.aiconfigurator.source import Columns, Heads, Source
from calibrate.provenance import SourceFile
from calibrate.table import read_table

_REQUIRED = ("kind", "dtype", "q_heads", "kv_heads", "head_dim", "tp", "batch", "kv_or_seq_len", "latency_us")
_KIND, _DTYPE = "mha_decode", "bf16"
_MICROSECONDS = 1e-6


class SupplementedSource(Source):
    """Tables with a file beside them, which is read for heads that have no rows in the tables.

    The file is CSV, a row a measurement: ``kind`` (``mha_decode``; others are left out), ``dtype`` (``bf16``, of KV
    too), ``q_heads`` and ``kv_heads`` of the whole model, which ``tp`` ranks share, ``head_dim``, ``batch``,
    ``kv_or_seq_len`` (the context) and ``latency_us`` of one layer.

    Args:
        source: the tables.
        path: of the file.
        by: whose figures they are and under which licence.
    """

    def __init__(self, source: Source, path: Path, by: str) -> None:
        super().__init__(source.path, source.engine)
        self._source = source
        self._file = path
        self._by = by
        self.engine_version, self.release = source.engine_version, source.release
        self.files, self.notes, self.attributions = source.files, source.notes, source.attributions

    def gemm(self, dtype: str) -> Columns:
        """See `Source`."""
        return self._source.gemm(dtype)

    def prefill(self, heads: Heads) -> Columns:
        """See `Source`."""
        return self._source.prefill(heads)

    def decode(self, heads: Heads) -> Columns:
        """Those of the tables, else the rows of the file.

        Raises:
            BadInput: a column of the file is missing, or a cell is no number.
        """
        found = self._source.decode(heads)
        if len(found["seconds"]) or heads.kv_dtype != "bfloat16":
            return found
        self.files.append(SourceFile.of(self._file))
        self.attributions.append(f"decode attention from {self._by}")
        self.notes.append(
            f"decode attention: none in the tables for {heads.query} query and {heads.key_value} KV heads; "
            f"measured on the GPU itself by others, {self._file.name}, with other kernels and launches included"
        )
        return _rows(self._file, heads)

    def experts(self, dtype: str) -> Mapping[str, NDArray[Any]]:
        """See `Source`."""
        return self._source.experts(dtype)

    def all_reduce(self, ranks: int) -> tuple[Columns, Columns]:
        """See `Source`."""
        return self._source.all_reduce(ranks)


def _rows(path: Path, heads: Heads) -> Columns:
    table = read_table(path, _REQUIRED)
    table = table.where((table.texts("kind") == _KIND) & (table.texts("dtype") == _DTYPE))
    ranks = table.counts("tp")
    fits = table.counts("q_heads") == heads.query * ranks
    fits &= table.counts("kv_heads") == heads.key_value * ranks
    table = table.where(fits & (table.counts("head_dim") == heads.size))
    return {
        "decodes": table.counts("batch").astype(np.float64),
        "context": table.counts("kv_or_seq_len").astype(np.float64),
        "seconds": table.numbers("latency_us") * _MICROSECONDS,
    }
