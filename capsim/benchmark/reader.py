"""Any benchmark's results: which tool wrote them, and the reader of that tool."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from capsim.benchmark import (
    aiperf,
    csv_columns,
    genai_perf,
    guidellm,
    inference_perf,
    sglang_serving,
    vllm_bench,
)
from capsim.benchmark.benchmark_file import EXPECTED, BenchmarkFile
from capsim.benchmark.csv_columns import read_csv
from capsim.benchmark.definitions import Definition
from capsim.benchmark.record import BenchmarkRun
from capsim.errors import BadInput, Fault


class Format(Protocol):
    """A module that reads the files of one tool."""

    TOOL: str
    DEFINITION: Definition

    def recognizes(self, data: Any) -> bool:
        """The first value of a file is of this tool."""

    def read(self, file: BenchmarkFile) -> list[BenchmarkRun]:
        """Every run of a file of this tool."""


FORMATS: tuple[Format, ...] = (
    vllm_bench,
    sglang_serving,
    guidellm,
    inference_perf,
    aiperf,
    genai_perf,
)
"""Readers in the order in which they are asked."""

_SUFFIXES = (".json", ".jsonl", ".yaml", ".yml", ".csv")
_NOT_RESULTS = {
    ".pytorch.json": "repeats the result beside it for a dashboard",
    ".failure.json": "says that a run failed",
    "warmup.json": "is the warm-up of a sweep",
}
"""Files that tools put beside their results, by the end of the name."""


@dataclass(frozen=True)
class SkippedFile:
    """A file of a folder that holds no run, and why."""

    name: str
    reason: str


def definition_of(tool: str) -> Definition:
    """What a run's tool means by its metrics.

    Raises:
        KeyError: no reader writes this `BenchmarkRun.tool`.
    """
    known: dict[str, Definition] = {each.TOOL: each.DEFINITION for each in FORMATS}
    return (known | {csv_columns.TOOL: csv_columns.DEFINITION})[tool]


def read_benchmark(
    path: str | Path, columns: Mapping[str, str] | None = None, unit: str = "s"
) -> list[BenchmarkRun]:
    """Read every run of a file or a folder.

    Files of a folder that hold no run are named in the remarks of its first run; see `read_folder`.

    Args:
        path: a file as a tool wrote it (JSON, JSON Lines, YAML), a CSV file, or a folder of such files.
        columns: names of the columns of CSV files by ours; see `read_csv`.
        unit: of the times of CSV files.

    Raises:
        BadInput: no such file, none of the formats, or damaged; a fault for each damaged file of a folder.
    """
    path = Path(path)
    if not path.is_dir():
        return _read_file(path, columns, unit)
    runs, skipped = read_folder(path, columns, unit)
    aside = tuple(f"not read, in the same folder: {each.name}, {each.reason}" for each in skipped)
    return [replace(runs[0], remarks=(*runs[0].remarks, *aside)), *runs[1:]]


def read_folder(
    path: str | Path, columns: Mapping[str, str] | None = None, unit: str = "s"
) -> tuple[list[BenchmarkRun], list[SkippedFile]]:
    """Read every run of the files of a folder, by name, and say which files hold none.

    Folders inside are not entered.

    Raises:
        BadInput: a fault for each damaged file; or there is no run.
    """
    path = Path(path)
    runs: list[BenchmarkRun] = []
    skipped: list[SkippedFile] = []
    faults: list[Fault | str] = []
    for entry in _entries(path):
        reason = _not_a_result(entry)
        if reason:
            skipped.append(SkippedFile(entry.name, reason))
            continue
        try:
            runs += _read_file(entry, columns, unit)
        except _Unrecognized as unrecognized:
            skipped.append(SkippedFile(entry.name, unrecognized.reason))
        except BadInput as error:
            faults += error.faults
    if faults:
        raise BadInput(*faults)
    if not runs:
        what = f"holds no result of a benchmark among {len(skipped)} files"
        raise BadInput(Fault(str(path), what, expected=_looked_for()))
    return runs, skipped


class _Unrecognized(BadInput):
    """A sound file that is of no tool."""

    def __init__(self, source: str, reason: str) -> None:
        self.reason = reason
        super().__init__(Fault(source, reason, expected=_looked_for()))


def _entries(folder: Path) -> Iterable[Path]:
    try:
        return sorted(entry for entry in folder.iterdir() if entry.is_file())
    except OSError as error:
        raise BadInput(Fault(str(folder), f"cannot be read: {error.strerror}", expected=EXPECTED)) from error


def _not_a_result(path: Path) -> str:
    """Why the name alone says that a file holds no run; empty where it does not."""
    for ending, reason in _NOT_RESULTS.items():
        if path.name.endswith(ending):
            return reason
    return "" if path.suffix.lower() in _SUFFIXES else f"is none of {', '.join(_SUFFIXES)}"


def _read_file(path: Path, columns: Mapping[str, str] | None, unit: str) -> list[BenchmarkRun]:
    file = BenchmarkFile.read(path)
    if file.is_csv:
        if columns is None and not csv_columns.recognizes(file):
            reason = "is CSV with neither a column ttft nor e2e; columns of other names need a map"
            raise _Unrecognized(file.source, reason)
        return [read_csv(path, columns, unit)]
    for each in FORMATS:
        if each.recognizes(file.values[0]):
            return each.read(file)
    data = file.values[0]
    keys = ", ".join(str(key)[:40] for key in list(data)[:8]) if isinstance(data, dict) else ""
    raise _Unrecognized(file.source, f"is of no known tool; keys found: {keys or 'none'}")


def _looked_for() -> str:
    return f"a result of {', '.join(each.TOOL for each in FORMATS)}, or CSV"
