from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capsim.fleet.log import Outcome, RequestColumns, RunLog
from capsim.measure.latency import RequestLatencies, user_latencies

HEADER = (
    "arrival_s",
    "submitted_s",
    "scheduled_s",
    "first_token_s",
    "finish_s",
    "prompt_tokens",
    "output_tokens",
    "cached_tokens",
    "loaded_tokens",
    "preemptions",
    "recomputed_tokens",
    "attempts",
    "replica",
    "outcome",
    "user_ttft_s",
    "user_tpot_s",
    "user_e2e_s",
    "priority",
    "held_s",
)
"""Columns of `requests.csv`; times are seconds, an event that did not happen is empty."""
OUTCOMES = {int(outcome): outcome.name.lower() for outcome in Outcome}
AT_ONCE = 1 << 14
"""Requests that are turned into text at a time."""


def write_requests(log: RunLog, path: Path) -> None:
    """Write one row a request: engine times as recorded, latencies as the user observed them."""
    user = user_latencies(log)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(HEADER)
        for first in range(0, len(log.requests.arrival), AT_ONCE):
            rows = slice(first, first + AT_ONCE)
            writer.writerows(zip(*_cells(log.requests, user, rows), strict=True))


def _cells(requests: RequestColumns, user: RequestLatencies, rows: slice) -> list[list[Any]]:
    """The columns of `HEADER`, of some requests."""
    times = (
        requests.arrival,
        requests.submitted,
        requests.scheduled,
        requests.first_token,
        requests.finish,
    )
    counts = (
        requests.prompt,
        requests.output,
        requests.cached,
        requests.loaded,
        requests.preemptions,
        requests.recomputed,
        requests.attempts,
        requests.replica,
    )
    return [
        *(_seconds(column[rows]) for column in times),
        *(column[rows].tolist() for column in counts),
        [OUTCOMES[outcome] for outcome in requests.outcome[rows].tolist()],
        *(_seconds(column[rows]) for column in (user.ttft, user.tpot, user.e2e)),
        requests.priority[rows].tolist(),
        _seconds(requests.held[rows]),
    ]


def _seconds(column: NDArray[np.float64]) -> list[str]:
    """Nanoseconds are kept: more would be noise of the arithmetic."""
    return [f"{value:.9g}" if math.isfinite(value) else "" for value in column.tolist()]
