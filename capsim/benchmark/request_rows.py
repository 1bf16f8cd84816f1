"""Requests as tools write them, one object each, gathered into the columns of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capsim.benchmark.fields import Fields
from capsim.benchmark.places import KeyPath
from capsim.benchmark.record import OK, UNKNOWN, BenchmarkRun

NANOSECOND = 1e-9

_MOST_NANOSECONDS = 10**20
"""Above which a time stamp is taken for a mistake; 3,000 years."""


@dataclass(frozen=True)
class RequestRow:
    """One request.

    Attributes:
        start: when it was sent, seconds of any clock that the rows share; NaN unknown.
        ttft, e2e: seconds from `start`, NaN where it did not happen or is unknown.
        prompt, output, cached: tokens, -1 unknown.
        status: as in BenchmarkRun.
        error: its text, empty where there was none.
        gaps: seconds between successive chunks; None: unknown.
    """

    start: float
    ttft: float = np.nan
    e2e: float = np.nan
    prompt: int = UNKNOWN
    output: int = UNKNOWN
    cached: int = UNKNOWN
    status: int = OK
    error: str = ""
    gaps: Sequence[float] | NDArray[np.float64] | None = None


def with_requests(run: BenchmarkRun, rows: Sequence[RequestRow]) -> BenchmarkRun:
    """The run with these requests, whose arrivals count from the first.

    Args:
        run: all else about it.
        rows: in the file's order.
    """
    start = np.array([row.start for row in rows], dtype=np.float64)
    known = start[~np.isnan(start)]
    gaps, gap_starts = _pooled(rows)
    return replace(
        run,
        arrival=start - known.min() if len(known) else start,
        ttft=np.array([row.ttft for row in rows], dtype=np.float64),
        e2e=np.array([row.e2e for row in rows], dtype=np.float64),
        prompt=np.array([row.prompt for row in rows], dtype=np.int64),
        output=np.array([row.output for row in rows], dtype=np.int64),
        cached=np.array([row.cached for row in rows], dtype=np.int64),
        status=np.array([row.status for row in rows], dtype=np.int64),
        errors=tuple(row.error for row in rows),
        gaps=gaps,
        gap_starts=gap_starts,
    )


def _pooled(
    rows: Sequence[RequestRow],
) -> tuple[NDArray[np.float64] | None, NDArray[np.int64] | None]:
    if all(row.gaps is None for row in rows):
        return None, None
    each = [np.asarray(() if row.gaps is None else row.gaps, dtype=np.float64) for row in rows]
    starts = np.concatenate(([0], np.cumsum([len(gaps) for gaps in each])))
    return np.concatenate(each), starts.astype(np.int64)


def token_count(fields: Fields, *keys: str) -> int:
    """The first of these numbers of tokens that the object has; -1 where it has none of them."""
    for key in keys:
        tokens = fields.whole(key)
        if tokens is not None:
            return tokens
    return UNKNOWN


def nanoseconds(fields: Fields, path: KeyPath, value: Any) -> int:
    """A time stamp in whole nanoseconds.

    It is never a float on its way: nanoseconds since 1970 have more digits than a float holds.

    Args:
        fields: the object that it is in.
        path: where in the object.
        value: what stands there.

    Raises:
        BadInput: it is missing, or no number of nanoseconds.
    """
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if value is None:
        fields.refuse(path, "is missing", "nanoseconds of a clock")
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MOST_NANOSECONDS:
        fields.refuse(path, f"is {ascii(value)[:40]}", "nanoseconds of a clock")
    return value
