"""Run logs written by hand."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from typing import Any

import numpy as np

from capsim.fleet.configuration import Latencies
from capsim.fleet.log import LeapColumns, Outcome, RequestColumns, RunLog

NAN = math.nan
OUTSIDE = Latencies(network=0.125, gateway=0.25, tokenization=0.5, detokenization=0.0625, stream_flush=0.0625)
"""Dyadic, so that sums are exact: 0.875 s inbound, 0.25 s outbound."""
POOL_BLOCKS = 64
BLOCK_SIZE = 16


def request(arrival: float, **columns: Any) -> dict[str, Any]:
    """One request; without more it was rejected."""
    rejected = {
        "held": 0.0, "submitted": NAN, "scheduled": NAN, "first_token": NAN, "finish": NAN, "service": NAN, "prompt": 8,
        "output": 5, "priority": 0,
        "cached": 0, "loaded": 0, "found": 0, "recomputed": 0, "preemptions": 0, "attempts": 0, "replica": -1,
        "outcome": Outcome.REJECTED,
    }  # fmt: skip
    return {"arrival": arrival, **rejected, **columns}


def served(
    arrival: float, scheduled: float, first_token: float, finish: float, **columns: Any
) -> dict[str, Any]:
    """One completed request, handed to the engine as soon as it can be unless said otherwise."""
    times = {
        "scheduled": scheduled, "first_token": first_token, "finish": finish, "service": finish - scheduled,
    }  # fmt: skip
    completed = {"attempts": 1, "replica": 0, "outcome": Outcome.COMPLETED}
    return request(arrival, **{"submitted": arrival + OUTSIDE.inbound, **times, **completed, **columns})


def leap(start: float, first: float, **columns: Any) -> dict[str, Any]:
    """One leap, of one step of one decode unless said otherwise."""
    usual = {
        "replica": 0, "steps": 1, "prefill_tokens": 0, "chunks": 0, "chunk_past": 0, "decodes": 1, "context": 8,
        "running": 1, "waiting": 0, "blocks": 1, "slope": 0.0,
        "growth": 0, "unfilled": 8,
    }  # fmt: skip
    return {"start": start, "first": first, **usual, **columns}


def leap_columns(*rows: dict[str, Any]) -> LeapColumns:
    return LeapColumns(**_columns(LeapColumns, rows))


def run_log(requests: list[dict[str, Any]], leaps: list[dict[str, Any]], **others: Any) -> RunLog:
    columns = RequestColumns(**_columns(RequestColumns, requests))
    log = RunLog(
        requests=columns,
        leaps=leap_columns(*leaps),
        resumed_gaps=np.array([]),
        states=(),
        latencies=OUTSIDE,
        gateway=None,
        end=float(np.nanmax([*columns.finish, *columns.arrival])),
        pool_blocks=POOL_BLOCKS,
        block_size=BLOCK_SIZE,
        evictions=np.array([0]),
        tiers=(),
        samples=1,
        blocks_left=0,
        lost_tokens=0,
        lost_first_tokens=0,
        events=0,
    )
    return replace(log, **others)


def with_requests(log: RunLog, **columns: Any) -> RunLog:
    """Replace whole columns of the requests."""
    return replace(log, requests=replace(log.requests, **columns))


def two_requests(*more: dict[str, Any], **others: Any) -> RunLog:
    """Two requests that share one step, and more of them that leave no leaps.

    The first (3 tokens) is prefilled in [1, 2), decodes in [2, 2.5) beside the prefill of the second (1
    token), and decodes alone in [2.5, 3.25).
    """
    requests = [
        served(0.0, 1.0, 2.0, 3.25, prompt=10, output=3),
        served(1.0, 2.0, 2.5, 2.5, prompt=20, output=1),
        *more,
    ]
    leaps = [
        leap(1.0, 1.0, chunks=1, prefill_tokens=10, decodes=0),
        leap(2.0, 0.5, chunks=1, prefill_tokens=20, running=2, waiting=1, blocks=3),
        leap(2.5, 0.75),
    ]
    return run_log(requests, leaps, **others)


def _columns(kind: type, rows: Any) -> dict[str, Any]:
    return {
        field.name: np.array(
            [row[field.name] for row in rows], dtype=np.float64 if "Floats" in str(field.type) else np.int64
        )
        for field in fields(kind)
    }
