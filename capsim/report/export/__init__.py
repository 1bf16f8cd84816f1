"""A simulated run in the formats of serving benchmarks, as a client would have recorded it.

Every file says that it was simulated, by what, and with which fingerprint. It is never dated: the same
scenario and seed give the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from capsim.report.export import csv_file, inference_perf, parquet, vllm_bench
from capsim.report.export.simulated_run import SimulatedRun


class Format(Protocol):
    """A module that writes one format."""

    FILE: str
    """Name of the file, without a folder."""

    def write(self, simulated: SimulatedRun, path: Path) -> None:
        """Write the run."""


FORMATS: Mapping[str, Format] = {
    "vllm-bench": vllm_bench,
    "inference-perf-br": inference_perf,
    "csv": csv_file,
    "parquet": parquet,
}
