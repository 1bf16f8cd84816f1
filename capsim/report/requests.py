from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from capsim.fleet.log import Outcome, RunLog
from capsim.measure.latency import user_latencies

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
)
"""Columns of `requests.csv`; times are seconds, an event that did not happen is empty."""


def write_requests(log: RunLog, path: Path) -> None:
    """Write one row a request: engine times as recorded, latencies as the user observed them."""
    requests, user = log.requests, user_latencies(log)
    times = [requests.arrival, requests.submitted, requests.scheduled, requests.first_token, requests.finish]
    counts = [
        requests.prompt,
        requests.output,
        requests.cached,
        requests.loaded,
        requests.preemptions,
        requests.recomputed,
        requests.attempts,
        requests.replica,
    ]
    names = {int(outcome): outcome.name.lower() for outcome in Outcome}
    columns = [
        *(_seconds(column) for column in times),
        *(column.tolist() for column in counts),
        [names[outcome] for outcome in requests.outcome.tolist()],
        *(_seconds(column) for column in (user.ttft, user.tpot, user.e2e)),
        requests.priority.tolist(),
    ]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(HEADER)
        writer.writerows(zip(*columns, strict=True))


def _seconds(column: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> list[str]:
    """Nanoseconds are kept: more would be noise of the arithmetic."""
    return [f"{value:.9g}" if np.isfinite(value) else "" for value in column.tolist()]
