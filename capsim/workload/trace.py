from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from capsim.documents.dropped_row import DroppedRow, dropped_notes
from capsim.workload.prefixes import Prefixes


@dataclass(frozen=True, eq=False)
class Trace:
    """Recorded requests as columns, in order of arrival.

    Attributes:
        name: what to call it, the file's name without its ending.
        source: the file.
        sha256: of the file's bytes.
        attribution: whom to name with the data; empty if the file says nothing.
        arrival: seconds from the first request, shape (n,), float64, not decreasing.
        prompt, output: tokens, shape (n,), int64, each at least 1.
        rows: rows read, without header and blank lines.
        dropped: rows that were not used, by their lines.
        out_of_order: used rows that were earlier than the used row before; they were sorted.
        ignored_columns: columns of the file that carry nothing for capsim.
        remarks: what else its reader made of the file, one sentence each.
        prefixes: which leading tokens the prompts share; None: the file does not say.
        hash_block: tokens that one hash id of the file stands for; None: it has none.
        priority: smaller goes first where the engine heeds it, shape (n,), int64; None: the file does not say.
    """

    name: str
    source: str
    sha256: str
    attribution: str
    arrival: NDArray[np.float64]
    prompt: NDArray[np.int64]
    output: NDArray[np.int64]
    rows: int
    dropped: tuple[DroppedRow, ...] = ()
    out_of_order: int = 0
    ignored_columns: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    prefixes: Prefixes | None = None
    hash_block: int | None = None
    priority: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.arrival)

    @property
    def duration(self) -> float:
        """Seconds from the first to the last request."""
        return float(self.arrival[-1])

    @property
    def rate(self) -> float:
        """Mean rate, requests over duration, per second; NaN when all requests arrive at once."""
        return len(self) / self.duration if self.duration > 0 else float("nan")

    @property
    def notes(self) -> tuple[str, ...]:
        """What was changed on the way from the file to the columns, one sentence each."""
        notes = dropped_notes(self.dropped, f"{self.rows} rows", "line")
        if self.out_of_order:
            were = "row was" if self.out_of_order == 1 else "rows were"
            notes.append(f"{self.out_of_order} {were} earlier than the row before; sorted by time")
        if self.ignored_columns:
            notes.append(f"ignored columns {', '.join(self.ignored_columns)}")
        return tuple(f"{Path(self.source).name}: {note}" for note in (*notes, *self.remarks))
