"""A run as CSV, one row a request, under the names by which `capsim.benchmark.csv_columns` reads it.

Times are seconds from the first arrival (``arrival``) or from the request's own (``ttft``, ``e2e``), with
every digit; an event that did not happen is an empty cell. Who simulated it stands in a column, since many
readers take a comment for a row.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capsim.benchmark.record import ERROR, INCOMPLETE, OK
from capsim.report.export.simulated_run import SimulatedRun

FILE = "benchmark.csv"

STATUS = {OK: "ok", ERROR: "error", INCOMPLETE: "incomplete"}


def write(simulated: SimulatedRun, path: Path) -> None:
    """Write the run."""
    content = columns(simulated)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(content)
        writer.writerows(zip(*content.values(), strict=True))


def columns(simulated: SimulatedRun) -> dict[str, list[Any]]:
    """Columns by name, n items each; None where an event did not happen."""
    run = simulated.run
    return {
        "arrival": run.arrival.tolist(),
        "ttft": _known(run.ttft),
        "e2e": _known(run.e2e),
        "prompt": run.prompt.tolist(),
        "output": run.output.tolist(),
        "cached": run.cached.tolist(),
        "status": [STATUS[status] for status in run.status.tolist()],
        "error": list(run.errors),
        "simulated_by": [simulated.simulated_by] * len(run),
        "fingerprint": [simulated.fingerprint] * len(run),
    }


def _known(seconds: NDArray[np.float64]) -> list[float | None]:
    return [None if np.isnan(value) else value for value in seconds.tolist()]
