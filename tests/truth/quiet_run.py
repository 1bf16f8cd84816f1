"""The measured runs of vLLM on a quiet CPU: figures, limits, speed probes, and what was replayed."""

from __future__ import annotations

import csv
import gzip
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

from capsim.cost import BatchShape
from capsim.engine import EngineConfiguration
from capsim.workload.prefixes import Prefixes
from capsim.workload.requests import Requests
from tests.truth.http_server import service

FOLDER = Path(__file__).parent / "quiet"
FIGURES = {
    name: f"{name.split()[0].lower()}_{name.split()[1]}_ms"
    for name in ("TTFT p50", "TTFT p95", "TPOT p50", "TPOT p95", "ITL p50", "ITL p95")
} | {"tokens/s": "out_tok_per_s"}
"""Figure, then column of the measurements."""
BELOW_KNEE = ("light", "medium", "prefix")
"""Traces whose TTFT is judged: at the others requests queue, and two runs of one trace differ by times."""
PROBES = {
    "decode1": BatchShape([], 1, 216),  # prompts of 200 tokens; the median of 30 outputs, and of 20
    "decode8": BatchShape([], 8, 8 * 211),
}
"""Speed probes that decode. The one that repeats a prompt of one length tells nothing of prompts all unlike."""
Row = dict[str, str]
Figures = dict[str, float]


@dataclass(frozen=True, eq=False)
class Quiet:
    """One run: its row of the measurements and the spread of repeats of its trace."""

    row: Row
    spread: Row

    @property
    def name(self) -> str:
        """Configuration and run."""
        return f"{self.row['config'].removeprefix('quiet_')} {self.row['run']}"

    @property
    def engine(self) -> EngineConfiguration:
        """The engine's limits."""
        caching = self.row["prefix_caching"] == "True"
        return replace(
            service().engine, num_gpu_blocks=int(self.row["num_blocks"]), enable_prefix_caching=caching
        )

    def measured(self) -> Figures:
        """Milliseconds, and tokens/s."""
        return {name: float(self.row[column]) for name, column in FIGURES.items()}

    def repeats(self, figure: str) -> float:
        """(largest - smallest) / smallest over all repeats of the trace."""
        return float(self.spread[f"{FIGURES[figure]}_spread_pct"]) / 100

    def judged(self, figure: str) -> bool:
        """Whether a target is set."""
        return not figure.startswith("TTFT") or self.row["trace"] in BELOW_KNEE


@cache
def runs() -> tuple[Quiet, ...]:
    """All runs of the quiet set."""
    kind = ("trace", "num_blocks", "prefix_caching")
    spreads = {tuple(row[key] for key in kind): row for row in rows(FOLDER / "repeat_spread.csv")}
    return tuple(Quiet(row, spreads[tuple(row[key] for key in kind)]) for row in rows(FOLDER / "runs.csv"))


@cache
def requests(trace: str) -> Requests:
    """What was replayed."""
    with gzip.open(FOLDER / f"{trace}.csv.gz", "rt", encoding="utf-8") as file:
        table = list(csv.DictReader(file))
    columns = {
        name: np.array([int(row[name]) for row in table], dtype=np.int64)
        for name in table[0]
        if name[-2:] != "_s"
    }
    arrival = np.array([float(row["arrival_s"]) for row in table])
    shared = columns["prefix_tokens"] > 0
    starts = np.concatenate([[0], np.cumsum(shared)])
    prefixes = Prefixes(starts, columns["prefix_id"][shared], columns["prefix_tokens"][shared])
    return Requests(arrival, columns["prompt_tokens"], columns["output_tokens"], prefixes)


def rows(path: Path) -> list[Row]:
    """Rows of a file."""
    with path.open() as file:
        return list(csv.DictReader(file))
