"""Simulated runs as files of ``vllm bench serve``, written out by hand so that only its reader reads them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capsim.fleet.log import RunLog
from capsim.fleet.simulation import simulate
from capsim.measure.latency import user_latencies
from capsim.plan.deployment import Deployment
from capsim.workload.requests import Requests

CLOCK = 7148.25
"""What a client's monotonic clock may show when the first request is sent."""


def some_requests(count: int, rate: float, seed: int = 1) -> Requests:
    """Poisson arrivals, the first at 0, and uniform lengths; every output has a TPOT."""
    random = np.random.default_rng(seed)
    gaps = random.exponential(1 / rate, count)
    gaps[0] = 0.0
    return Requests(gaps.cumsum(), random.integers(50, 500, count), random.integers(2, 100, count))


def served(deployment: Deployment, requests: Requests, concurrency: int | None = None) -> RunLog:
    """The requests on the deployment's fleet."""
    return simulate(
        requests, deployment.scenario.fleet, deployment.engine, deployment.cost, concurrency=concurrency
    )


def run_of(log: RunLog, **changes: Any) -> dict[str, Any]:
    """What the benchmark would have written of a run without preemptions on one replica; None leaves a key out."""
    requests, user = log.requests, user_latencies(log)
    total = {
        "prompt": int(requests.prompt.sum()),
        "output": int(requests.output.sum()),
        "seconds": float((requests.arrival + user.e2e).max() - requests.arrival.min()),
    }
    run = {
        "date": "20260101-000000",
        "backend": "openai",
        "model_id": "small",
        "num_prompts": len(requests.prompt),
        "request_rate": "inf",
        "burstiness": 1.0,
        "max_concurrency": None,
        "duration": total["seconds"],
        "completed": len(requests.prompt),
        "failed": 0,
        "total_input_tokens": total["prompt"],
        "total_output_tokens": total["output"],
        "request_throughput": len(requests.prompt) / total["seconds"],
        "input_lens": requests.prompt.tolist(),
        "output_lens": requests.output.tolist(),
        "ttfts": user.ttft.tolist(),
        "itls": [] if "itls" in changes else [gaps.tolist() for gaps in _gaps(log)],
        "latencies": user.e2e.tolist(),
        "start_times": (CLOCK + requests.arrival).tolist(),
        "errors": [""] * len(requests.prompt),
        **changes,
    }
    return {key: value for key, value in run.items() if value is not None}


def _gaps(log: RunLog) -> list[NDArray[np.float64]]:
    """Gaps between the tokens of each request: a running sequence makes a token in every step."""
    leaps = log.leaps
    ends = np.concatenate(
        [
            start + np.cumsum(first + slope * np.arange(steps))
            for start, first, slope, steps in zip(
                leaps.start, leaps.first, leaps.slope, leaps.steps, strict=True
            )
        ]
    )
    gaps = []
    for first, last, output in zip(
        log.requests.first_token, log.requests.finish, log.requests.output, strict=True
    ):
        # Half of the shortest step on either side, so that rounding decides nothing.
        tokens = ends[(ends > first - 1e-3) & (ends < last + 1e-3)]
        assert len(tokens) == output
        gaps.append(np.diff(tokens))
    return gaps


def write(path: Path, *runs: dict[str, Any]) -> Path:
    """One run a line, as ``--append-result`` does."""
    path.write_text("\n".join(json.dumps(run) for run in runs), encoding="utf-8")
    return path
