"""What one run of a serving benchmark measured, the same record whichever tool wrote it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from capsim.documents.dropped_row import DroppedRow, dropped_notes

OK, ERROR, INCOMPLETE = 0, 1, 2
"""Values of a request's status: answered in full, failed, cut off or still running when the run ended."""

UNKNOWN = -1
"""Tokens that the file does not tell."""

Aggregates = Mapping[str, Mapping[str, float]]
"""Metric, then statistic, then value: seconds, counts, tokens or rates per second."""


def unknown_seconds() -> NDArray[np.float64]:
    """The column of a run without requests."""
    return np.zeros(0, dtype=np.float64)


def unknown_tokens() -> NDArray[np.int64]:
    """The column of a run without requests."""
    return np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class BenchmarkRun:
    """One run of one benchmark tool at one load, requests as columns in the file's order.

    A file that holds aggregates alone gives columns of length 0.

    Attributes:
        tool: which tool wrote it, e.g. ``vllm bench serve``.
        tool_version: as the file states it; empty where it does not.
        source: the file.
        sha256: of the file's bytes.
        label: what tells this run from others of the same file or folder; may be empty.
        model: as the tool was told; empty where the file does not say.
        request_rate: requests per second that were offered; None: as fast as allowed, or unknown.
        burstiness: shape of the gamma distribution of gaps between arrivals, 1 is Poisson; None: unknown.
        concurrency: most requests that the client kept open; None: not limited, or unknown.
        duration: seconds, as the tool states it; NaN where it does not.
        arrival: when the client sent each request, seconds from the first, shape (n,), float64, NaN unknown.
        ttft: seconds from sending to the first token, shape (n,), NaN where it did not happen or is unknown.
        e2e: seconds from sending to the end, shape (n,), NaN where it did not happen or is unknown.
        prompt, output: tokens, shape (n,), int64, -1 unknown.
        cached: prompt tokens that the server found in its cache, shape (n,), int64, -1 unknown.
        status: 0 ok, 1 error, 2 incomplete, shape (n,), int64.
        errors: text of each request's error, n of them, empty where there was none.
        gaps: seconds between successive chunks of the output, pooled in the order of requests, shape (k,).
            The time to the first token is none of them.
        gap_starts: gaps of request i are ``gaps[gap_starts[i]:gap_starts[i + 1]]``, shape (n + 1,), int64.
            Both are None where the file has no gaps.
        failures_visible: the file tells failed requests from others, also where none failed.
        aggregates: what the tool itself printed. Metrics of latency are ``ttft``, ``tpot``, ``itl`` and
            ``e2e``, in seconds, with statistics ``mean``, ``std``, ``min``, ``max`` and ``pNN`` (the median
            is ``p50``). ``request_throughput``, ``input_throughput``, ``output_throughput``,
            ``total_throughput`` and ``goodput`` are rates per second with ``mean``. ``requests`` has the
            counts ``ok``, ``error`` and ``incomplete``, ``tokens`` the totals ``prompt`` and ``output``.
            What else a tool prints keeps its name.
        dropped: requests that were not used, by their lines or their places in an array.
        remarks: what else its reader made of the file, one sentence each.
    """

    tool: str
    source: str
    sha256: str
    tool_version: str = ""
    label: str = ""
    model: str = ""
    request_rate: float | None = None
    burstiness: float | None = None
    concurrency: int | None = None
    duration: float = float("nan")
    arrival: NDArray[np.float64] = field(default_factory=unknown_seconds)
    ttft: NDArray[np.float64] = field(default_factory=unknown_seconds)
    e2e: NDArray[np.float64] = field(default_factory=unknown_seconds)
    prompt: NDArray[np.int64] = field(default_factory=unknown_tokens)
    output: NDArray[np.int64] = field(default_factory=unknown_tokens)
    cached: NDArray[np.int64] = field(default_factory=unknown_tokens)
    status: NDArray[np.int64] = field(default_factory=unknown_tokens)
    errors: tuple[str, ...] = ()
    gaps: NDArray[np.float64] | None = None
    gap_starts: NDArray[np.int64] | None = None
    failures_visible: bool = False
    aggregates: Aggregates = field(default_factory=dict)
    dropped: tuple[DroppedRow, ...] = ()
    remarks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        columns = ("arrival", "ttft", "e2e", "prompt", "output", "cached", "status", "errors")
        lengths = {name: len(getattr(self, name)) for name in columns}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"columns of a run differ in length: {lengths}")
        if (self.gaps is None) != (self.gap_starts is None):
            raise ValueError("gaps and gap_starts are given together")
        if self.gap_starts is not None and len(self.gap_starts) != len(self) + 1:
            raise ValueError(f"{len(self.gap_starts)} gap_starts for {len(self)} requests")

    def __len__(self) -> int:
        return len(self.status)

    @property
    def ok(self) -> NDArray[np.bool_]:
        """Which requests were answered in full, shape (n,)."""
        ok: NDArray[np.bool_] = self.status == OK
        return ok

    @property
    def capabilities(self) -> frozenset[str]:
        """What can be checked against this file, of "requests", "arrivals", "gaps", "failures" and "cached".

        "arrivals" wants all of them: a missing one is load that nobody can repeat.
        """
        has = {
            "requests": len(self) > 0,
            "arrivals": len(self) > 0 and not np.isnan(self.arrival).any(),
            "gaps": self.gaps is not None and len(self.gaps) > 0,
            "failures": self.failures_visible,
            "cached": bool((self.cached >= 0).any()),
        }
        return frozenset(name for name, present in has.items() if present)

    @property
    def notes(self) -> tuple[str, ...]:
        """What was changed on the way from the file to the columns, one sentence each."""
        total = f"{len(self) + len(self.dropped)} requests"
        notes = (*dropped_notes(self.dropped, total, "row"), *self.remarks)
        return tuple(f"{Path(self.source).name}: {note}" for note in notes)
