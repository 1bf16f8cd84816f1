"""The file of published measurements: facts, each row with the address of its source.

It may not be shipped. `CAPSIM_TRUTH` names the folder that holds ``public.csv``, as for the other files that are not
shipped; recorded lengths of three runs lie beside that folder, in ``traces``.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from tests.truth.blis_stages import VARIABLE, folder
from tests.truth.public.flags import Flags

QUALITY = ("A", "B")
"""Rows that are used: settings complete, or complete but for what the engine's defaults say."""
TRACES = ("sharegpt_lengths_llama31_8b_300.jsonl", "sharegpt_lengths_qwen3_32b_300.jsonl")
_V1 = (0, 8)
"""First version of vLLM whose engine is V1 by default."""


def trace_path(name: str) -> Path:
    """Where recorded lengths and arrivals lie."""
    return folder().parent / "traces" / name


def missing() -> str:
    """What lacks, empty if nothing does."""
    for path in (folder() / "public.csv", *map(trace_path, TRACES)):
        if not path.exists():
            why = "it may not be shipped" if path.suffix == ".csv" else "it is not shipped"
            return (
                f"skipped: {path} is not there; {why}, and {VARIABLE} can name a folder that has such files"
            )
    return ""


@dataclass(frozen=True)
class Measured:
    """What was measured; None: not told.

    Attributes:
        tokens: output tokens/s of all GPUs together; or None and `requests`.
        requests: requests/s.
        tpot: seconds a token, mean over requests, or of a statistic that the source does not name.
        ttft: seconds to the first token, likewise; None where all requests were sent at once and it measures backlog.
        e2e: seconds of a request, mean; None likewise.
    """

    tokens: float | None
    requests: float | None
    tpot: float | None
    ttft: float | None
    e2e: float | None


@dataclass(frozen=True, eq=False)
class Row:
    """One published run.

    Attributes:
        cells: of the file, by column.
    """

    cells: dict[str, str]

    def __getitem__(self, column: str) -> str:
        return self.cells[column]

    @property
    def name(self) -> str:
        """Its id, unique."""
        return self["id"]

    @cached_property
    def flags(self) -> Flags:
        """Settings of the engine's command line."""
        return Flags.of(self["flags"])

    @property
    def engine(self) -> str:
        """Engine, and of vLLM the generation of its scheduler."""
        text = self["engine"]
        if text.startswith("sglang"):
            return "SGLang"
        if text.startswith("tensorrt-llm"):
            return "TensorRT-LLM"
        version = re.search(r"(\d+)\.(\d+)", self["engine_version"])
        older = version is not None and (int(version[1]), int(version[2])) < _V1
        return "vLLM V0" if older or "V0" in self["engine_version"] else "vLLM"

    @property
    def at_once(self) -> bool:
        """Whether all requests were sent at once."""
        return self["arrival"] in {"all at once", "fixed batch"}

    def measured(self) -> Measured:
        """What the source printed, in seconds."""
        waits = not self.at_once
        return Measured(
            tokens=self._number("out_tok_s"),
            requests=self._number("req_per_s"),
            tpot=self._milliseconds("tpot_mean_ms", "tpot_other_ms"),
            ttft=self._milliseconds("ttft_mean_ms", "ttft_other_ms") if waits else None,
            e2e=self._milliseconds("e2e_mean_ms") if waits else None,
        )

    def noted(self, what: str) -> float | None:
        """The number after these words in the row's notes."""
        found = re.search(re.escape(what) + r"\s*=?\s*([\d.]+\d|\d+)", self["notes"])
        return float(found[1]) if found else None

    def _number(self, column: str) -> float | None:
        return float(self[column]) if self[column] else None

    def _milliseconds(self, *columns: str) -> float | None:
        values = (self._number(column) for column in columns)
        return next((value / 1e3 for value in values if value is not None), None)


@cache
def rows() -> tuple[Row, ...]:
    """The rows that are used, in the order of the file."""
    with (folder() / "public.csv").open(encoding="utf-8") as file:
        return tuple(Row(cells) for cells in csv.DictReader(file) if cells["quality"] in QUALITY)
