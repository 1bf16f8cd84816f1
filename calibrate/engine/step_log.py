"""The log that an engine's scheduler and worker write while they run, and the file of steps made of it.

Each process appends to a file of its own, a line a step, in seconds of the machine's monotonic clock. The lines are
joined by time: the worker's forward pass begins after a step was scheduled and ends before its outputs are handled.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from calibrate.engine_steps import WORKER, EngineHeader, header_path

SCHEDULER_FILE, WORKER_FILE = "scheduler.csv", "worker.csv"
SCHEDULED = (
    "t_start",
    "t_sched_end",
    "t_model_end",
    "t_end",
    "n_prefill_reqs",
    "prefill_tokens",
    "prefill_ctx",
    "prefill_attn",
    "n_decode",
    "decode_ctx",
    "n_running",
    "n_waiting",
    "n_preempted",
    "n_new",
    "n_resumed",
    "free_blocks",
    "n_sampled",
    "chunks",
    "decode_squares",
    "decode_longest",
)
"""Columns of the scheduler's file. ``t_model_end``: the worker's reply is there; ``prefill_attn``: pairs of query and
key; ``n_running`` to ``free_blocks``: once the step is scheduled; ``n_sampled``: sequences that get a token."""
COLUMNS = ("case", "kind", *SCHEDULED, *WORKER)
"""Columns of a file of steps."""
_TIMES = 4
_CLOCK = 1e-4  # seconds by which the clocks of two processes may differ
Row = list[str]


@dataclass(frozen=True)
class Span:
    """Steps that belong together.

    Attributes:
        first, last: seconds of the clock; steps that start from `first` to before `last` are inside.
        case, kind: what was asked for in it.
    """

    first: float
    last: float
    case: str = ""
    kind: str = ""


def clear(folder: Path) -> None:
    """Make the folder and take an older log out of it."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in (SCHEDULER_FILE, WORKER_FILE):
        (folder / name).write_text("")


def steps(folder: Path, spans: Iterable[Span], origin: float) -> Iterator[Row]:
    """Rows of the steps inside the spans, columns `COLUMNS`, with times from the origin on."""
    scheduler, worker = _lines(folder / SCHEDULER_FILE), _lines(folder / WORKER_FILE)
    place = 0
    spans = sorted(spans, key=lambda span: span.first)
    begin = 0
    for span in spans:
        while begin < len(scheduler) and float(scheduler[begin][0]) < span.first:
            begin += 1
        while begin < len(scheduler) and float(scheduler[begin][0]) < span.last:
            times = [float(cell) for cell in scheduler[begin][:_TIMES]]
            while place < len(worker) and float(worker[place][0]) < times[1] - _CLOCK:
                place += 1
            own = worker[place] if place < len(worker) and float(worker[place][0]) < times[2] else [""] * 4
            yield [
                span.case,
                span.kind,
                *(f"{time - origin:.6f}" for time in times),
                *scheduler[begin][_TIMES:],
                *(f"{float(cell) - origin:.6f}" if cell else "" for cell in own),
            ]
            begin += 1


def write(path: Path, header: EngineHeader, rows: Iterable[Sequence[str]]) -> int:
    """Write a file of steps and its header; how many steps it has."""
    count = 0
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for row in rows:
            writer.writerow(row)
            count += 1
    header_path(path).write_text(header.text(), encoding="utf-8")
    return count


def _lines(path: Path) -> list[Row]:
    """Whole lines: the last one may still be in the writing."""
    text = path.read_text(encoding="utf-8")
    return list(csv.reader(text[: text.rfind("\n") + 1].splitlines()))
