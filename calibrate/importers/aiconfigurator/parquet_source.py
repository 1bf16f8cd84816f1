"""The tables as the package ``aiconfigurator-core`` ships them: Parquet files by kind, engine and version."""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from importlib import metadata, resources
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrate.importers.aiconfigurator.source import Columns, Heads, Source, in_graph
from calibrate.provenance import SourceFile
from calibrate.table import GIT_LFS
from capsim.errors import BadInput, Fault

INSTALLED = "installed"
"""First part of a path that means the tables of the installed package, e.g. ``installed/h100_sxm``."""

_PACKAGE = "aiconfigurator-core"
_MODULE = "aiconfigurator_core"
_MILLISECONDS = 1e-3
_EXPERTS = {
    "hidden": "hidden_size",
    "inter": "inter_size",
    "topk": "topk",
    "experts": "num_experts",
    "tp": "moe_tp_size",
    "ep": "moe_ep_size",
    "tokens": "num_tokens",
    "routing": "distribution",
    "seconds": "seconds",
}
"""Columns of the table of experts, by what `ExpertTable` calls them."""
_ELEMENT_BYTES = 2  # of half and bfloat16, the dtypes whose all-reduces are read


class ParquetSource(Source):
    """``KIND/ENGINE/VERSION/TABLE.parquet``, one row a measurement, times in milliseconds; needs pyarrow."""

    def __init__(self, path: Path, engine: str, version: str | None) -> None:
        super().__init__(path, engine)
        self.engine_version = version or _newest(path / "gemm" / engine)
        self.release = _release(path)

    def gemm(self, dtype: str) -> Columns:
        """See `Source`."""
        table = self._read(self._own("gemm"), "gemm_perf", [("gemm_dtype", "==", dtype)])
        return {name: table[name] for name in ("m", "n", "k", "seconds")}

    def prefill(self, heads: Heads) -> Columns:
        """See `Source`."""
        table = self._attention("context", heads, [("batch_size", "==", 1)])
        return {"new": table["isl"], "seconds": table["seconds"]}

    def decode(self, heads: Heads) -> Columns:
        """See `Source`."""
        table = self._attention("generation", heads, [])
        context = table["isl"] + table["step"]  # KV before the step, and the new token
        return {"decodes": table["batch_size"], "context": context, "seconds": table["seconds"]}

    def experts(self, dtype: str) -> Mapping[str, NDArray[Any]]:
        """See `Source`."""
        folder = self._own("moe")
        table = self._read(folder, "moe_perf", [("moe_dtype", "==", dtype)])
        missing = [column for column in _EXPERTS.values() if column not in table]
        if missing:
            raise BadInput(Fault(str(folder / "moe_perf.parquet"), f"the column {missing[0]} is missing"))
        columns = {name: table[column] for name, column in _EXPERTS.items()}
        return {**columns, "routing": columns["routing"].astype(np.str_)}

    def all_reduce(self, ranks: int) -> tuple[Columns, Columns]:
        """See `Source`."""
        of_ranks = ("num_gpus", "==", ranks)
        own = self._messages(self.engine, "custom_allreduce_perf", [of_ranks])
        graph = np.asarray([in_graph(mode) for mode in own["kernel_source"]], dtype=np.bool_)
        wanted = [of_ranks, ("op_name", "==", "all_reduce"), ("nccl_dtype", "in", ("half", "bfloat16"))]
        nccl = self._messages("nccl", "nccl_perf", wanted)
        return {name: own[name][graph] for name in ("bytes", "seconds")}, nccl

    def _messages(self, library: str, name: str, wanted: list[Any]) -> dict[str, NDArray[Any]]:
        """All-reduces of a library, of the engine's version where it has it, else of the newest."""
        folder = self.path / "comm" / library
        versions = _versions(folder)
        if not versions:
            return {column: np.zeros(0) for column in ("bytes", "seconds", "kernel_source")}
        version = self.engine_version if self.engine_version in versions else versions[-1]
        table = self._read(folder / version, name, wanted)
        return {**table, "bytes": table["message_size"].astype(np.float64) * _ELEMENT_BYTES}

    def _own(self, kind: str) -> Path:
        folder = self.path / kind / self.engine
        if not (folder / self.engine_version).is_dir():
            known = ", ".join(_versions(folder)) or "none"
            raise BadInput(
                Fault(str(folder), f"has no version {self.engine_version!r}", "", f"one of {known}")
            )
        return folder / self.engine_version

    def _attention(self, kind: str, heads: Heads, more: list[Any]) -> Mapping[str, NDArray[Any]]:
        wanted = [
            ("attn_dtype", "==", "bfloat16"),
            ("kv_cache_dtype", "==", heads.kv_dtype),
            ("head_dim", "==", heads.size),
            ("num_heads", "==", heads.query),
            ("num_key_value_heads", "==", heads.key_value),
            *more,
        ]
        table = self._read(self._own("attention"), f"{kind}_attention_perf", wanted)
        if "window_size" not in table:  # older tables know no sliding window
            return table
        full = table["window_size"] == 0
        return {name: column[full] for name, column in table.items()}

    def _read(self, folder: Path, name: str, wanted: list[Any]) -> dict[str, NDArray[Any]]:
        path = folder / f"{name}.parquet"
        table = _parquet(path, wanted)
        self.files.append(SourceFile.of(path, str(path.relative_to(self.path))))
        missing = [column for column, _, _ in wanted if column not in table]
        if missing or "latency" not in table:
            raise BadInput(Fault(str(path), f"the column {(missing or ['latency'])[0]} is missing"))
        if len(table.get("device", ())):
            self.gpu_name = str(table["device"][0])
        return {**table, "seconds": _durations(path, table["latency"]) * _MILLISECONDS}


def installed(path: Path) -> Path:
    """Folder of a system in the installed package."""
    try:
        data = Path(str(resources.files(_MODULE))) / "systems" / "data"
    except ModuleNotFoundError as error:
        raise BadInput(f"{path}: {_PACKAGE} is not installed (pip install {_PACKAGE})") from error
    folder = data.joinpath(*path.parts[1:])
    if len(path.parts) < 2 or not (folder / "gemm").is_dir():
        systems = sorted(entry.name for entry in data.iterdir() if (entry / "gemm").is_dir())
        raise BadInput(
            Fault(str(path), "names no system with tables", "", f"{INSTALLED}/ and {', '.join(systems)}")
        )
    return folder


def _release(path: Path) -> str:
    """Name and version of the package, where the tables are those of the installed one."""
    try:
        return f"{_PACKAGE} {metadata.version(_PACKAGE)}" if _MODULE in path.parts else "aiconfigurator"
    except metadata.PackageNotFoundError:
        return "aiconfigurator"


def _versions(folder: Path) -> list[str]:
    """Versions in a folder, oldest first."""
    found = [entry.name for entry in folder.iterdir() if entry.is_dir()] if folder.is_dir() else []
    return sorted(found, key=lambda name: [int(part) for part in re.findall(r"\d+", name)])


def _newest(folder: Path) -> str:
    versions = _versions(folder)
    if not versions:
        raise BadInput(Fault(str(folder), "holds no version"))
    return versions[-1]


def _parquet(path: Path, wanted: list[Any]) -> dict[str, NDArray[Any]]:
    """Rows of a Parquet file that match, as columns."""
    try:
        with path.open("rb") as file:
            if file.read(len(GIT_LFS)) == GIT_LFS:
                what = "is a Git LFS pointer, not the data itself"
                raise BadInput(Fault(str(path), what, expected="the file that `git lfs pull` fetches"))
    except OSError as error:
        raise BadInput(Fault(str(path), f"cannot be read: {error.strerror or error}")) from error
    reader = _pyarrow("pyarrow.parquet")
    try:
        table = reader.read_table(path, filters=wanted)
    except (ValueError, OSError, KeyError) as error:  # pyarrow's errors derive from these
        raise BadInput(
            Fault(str(path), f"cannot be read as Parquet: {str(error).splitlines()[0]}")
        ) from error
    return {name: table.column(name).to_numpy() for name in table.column_names}


def _pyarrow(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise BadInput("Parquet tables need pyarrow (pip install pyarrow)") from error


def _durations(path: Path, values: NDArray[Any]) -> NDArray[np.float64]:
    seconds = np.asarray(values, dtype=np.float64)
    if not (np.isfinite(seconds) & (seconds > 0)).all():
        raise BadInput(Fault(str(path), "holds a time that is not above 0", "latency", "milliseconds"))
    return seconds
