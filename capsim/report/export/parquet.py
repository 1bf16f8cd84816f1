"""A run as Parquet: the columns of the CSV export with their types, and the gaps between tokens where known.

The marks of the origin stand in the columns and in the schema's metadata. It needs pyarrow, which is no
dependency of capsim.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from capsim.errors import BadInput, Fault
from capsim.report.export.csv_file import columns
from capsim.report.export.simulated_run import SimulatedRun

FILE = "benchmark.parquet"


def require_pyarrow() -> None:
    """Find out before a long simulation.

    Raises:
        BadInput: pyarrow is not installed.
    """
    _pyarrow("pyarrow.parquet")


def write(simulated: SimulatedRun, path: Path) -> None:
    """Write the run; ``gaps`` is a list of seconds a request.

    Raises:
        BadInput: pyarrow is not installed.
    """
    arrow, run = _pyarrow("pyarrow"), simulated.run
    content: dict[str, Any] = dict(columns(simulated))
    for name in ("ttft", "e2e"):  # a column of None alone would have no type
        content[name] = arrow.array(getattr(run, name), from_pandas=True)
    if run.gaps is not None and run.gap_starts is not None:
        content["gaps"] = arrow.LargeListArray.from_arrays(run.gap_starts, run.gaps)
    table = arrow.table(content, metadata=simulated.origin | _notes(simulated))
    _pyarrow("pyarrow.parquet").write_table(table, path)


def _notes(simulated: SimulatedRun) -> dict[str, str]:
    return {"note": "; ".join(simulated.run.remarks)} if simulated.run.remarks else {}


def _pyarrow(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise BadInput(
            Fault(
                "--export",
                "parquet needs pyarrow, which is not installed",
                expected="the extra aiconfigurator, or pip install pyarrow",
            )
        ) from error
