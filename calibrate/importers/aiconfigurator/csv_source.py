"""The tables as CSV files in one folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrate.importers.aiconfigurator.source import Columns, Heads, Source, in_graph
from calibrate.provenance import SourceFile
from calibrate.table import Table, read_table
from capsim.errors import BadInput, Fault

_MICROSECONDS = 1e-6


class CsvSource(Source):
    """One file a kind, times in microseconds, one axis spread over the columns; an empty cell was not measured."""

    def __init__(self, path: Path, engine: str, version: str | None) -> None:
        super().__init__(path, engine)
        self._reduce = self._read("all_reduce_us.csv", "library", "version", "mode", "dtype", "gpus")
        stated = self._reduce.where(self._reduce.texts("library") == engine)
        self.engine_version = stated.only("version", version)

    def gemm(self, dtype: str) -> Columns:
        """See `Source`."""
        table = self._read(f"gemm_{self.engine}_us.csv", "gemm_dtype", "n", "k")
        return _long(table.where(table.texts("gemm_dtype") == dtype), ("n", "k"), "m", "m")

    def prefill(self, heads: Heads) -> Columns:
        """See `Source`."""
        columns = _long(self._attention("context", heads), ("batch",), "isl", "new")
        return _only(columns, "batch", 1)

    def decode(self, heads: Heads) -> Columns:
        """See `Source`."""
        columns = _long(self._attention("generation", heads), ("batch",), "ctx", "context")
        return {"decodes": columns["batch"], **{name: columns[name] for name in ("context", "seconds")}}

    def experts(self, dtype: str) -> Mapping[str, NDArray[Any]]:
        """See `Source`."""
        axes = ("hidden", "inter", "topk", "experts", "tp", "ep")
        table = self._read("moe_us.csv", "engine", "moe_dtype", *axes, "routing")
        table = table.where((table.texts("engine") == self.engine) & (table.texts("moe_dtype") == dtype))
        return _long(table, axes, "t", "tokens", texts=("routing",))

    def all_reduce(self, ranks: int) -> tuple[Columns, Columns]:
        """See `Source`."""
        table = self._reduce
        table = table.where(
            (table.counts("gpus") == ranks) & np.isin(table.texts("dtype"), ("half", "bfloat16"))
        )
        graph = np.asarray([in_graph(mode) for mode in table.texts("mode").tolist()], dtype=np.bool_)
        own = table.where(graph & (table.texts("library") == self.engine))
        return _messages(own), _messages(table.where(table.texts("library") == "nccl"))

    def _attention(self, kind: str, heads: Heads) -> Table:
        axes = ("attn_dtype", "kv_dtype", "head_dim", "q_heads", "kv_heads", "batch")
        table = self._read(f"{kind}_attention_{self.engine}_us.csv", *axes)
        chosen = (table.texts("attn_dtype") == "bfloat16") & (table.texts("kv_dtype") == heads.kv_dtype)
        chosen &= table.counts("head_dim") == heads.size
        chosen &= (table.counts("q_heads") == heads.query) & (table.counts("kv_heads") == heads.key_value)
        return table.where(chosen)

    def _read(self, name: str, *required: str) -> Table:
        table = read_table(self.path / name, required)
        file = SourceFile.of(self.path / name)
        if file not in self.files:
            self.files.append(file)
        return table


def _long(
    table: Table, axes: Sequence[str], prefix: str, name: str, texts: Sequence[str] = ()
) -> dict[str, NDArray[Any]]:
    """Columns `prefix` + count as rows of their own, without the empty cells; `texts` are taken along."""
    spread = {int(column[len(prefix) :]): column for column in table.columns if _is_spread(column, prefix)}
    if not spread:
        what = f"no column {prefix} with a count, e.g. {prefix}1"
        raise BadInput(
            Fault(table.source, what, "", f"a header with {', '.join(axes)} and {prefix}1, ...", "", 1, 1)
        )
    parts: dict[str, list[NDArray[Any]]] = {axis: [] for axis in (*axes, *texts, name, "seconds")}
    for count, column in spread.items():
        kept = table.where(table.texts(column) != "")
        for axis in axes:
            parts[axis].append(kept.counts(axis).astype(np.float64))
        for text in texts:
            parts[text].append(kept.texts(text))
        parts[name].append(np.full(len(kept), count, dtype=np.float64))
        parts["seconds"].append(kept.numbers(column) * _MICROSECONDS)
    return {axis: np.concatenate(columns) for axis, columns in parts.items()}


def _is_spread(column: str, prefix: str) -> bool:
    return column.startswith(prefix) and column[len(prefix) :].isdigit()


def _only(columns: Columns, axis: str, count: int) -> Columns:
    chosen = columns[axis] == count
    return {name: column[chosen] for name, column in columns.items() if name != axis}


def _messages(table: Table) -> Columns:
    return {
        "bytes": table.counts("message_bytes").astype(np.float64),
        "seconds": table.numbers("us") * _MICROSECONDS,
    }
