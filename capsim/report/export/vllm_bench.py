"""A run as ``vllm bench serve --save-result --save-detailed`` writes it, for what reads such files.

Keys and units are those of vLLM 0.33: arrays in seconds, aggregates in milliseconds. Arrays have an item a
request, the failed included. What a simulation does not have is left out: the date, the texts, the tokenizer,
and peaks over seconds of a clock. ``backend`` is ``capsim``, and the marks of the origin stand where the tool
has the user's ``--metadata``, as text. ``cached_tokens`` is an addition, of the same name as SGLang's.

Latencies are the user's. ``itls`` is exact to a nanosecond and absent where a request was preempted between
tokens, which ``note`` then says; see `capsim.report.export.token_gaps`.
"""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from capsim.benchmark.record import OK, BenchmarkRun
from capsim.report.export.simulated_run import SimulatedRun

FILE = "vllm-bench.json"

_METRICS = {"ttft": "ttft", "tpot": "tpot", "itl": "itl", "e2e": "e2el"}
_STATISTICS = {"mean": "mean", "p50": "median", "std": "std", "p90": "p90", "p95": "p95", "p99": "p99"}
_DIGITS = 9
"""Of a gap in seconds: there are as many gaps as tokens, and more than nanoseconds is noise of arithmetic."""


def write(simulated: SimulatedRun, path: Path) -> None:
    """Write one JSON object on one line, as the tool does."""
    run = simulated.run
    content = {**_load(run), **simulated.origin, **_figures(run), **_arrays(run)}
    if run.remarks:
        content["note"] = "; ".join(run.remarks)
    path.write_text(json.dumps(content, allow_nan=False) + "\n", encoding="utf-8")


def _load(run: BenchmarkRun) -> dict[str, Any]:
    return {
        "backend": run.tool,
        "label": run.label,
        "model_id": run.model,
        "num_prompts": len(run),
        "request_rate": "inf" if run.request_rate is None else run.request_rate,
        "burstiness": run.burstiness,
        "max_concurrency": run.concurrency,
    }


def _figures(run: BenchmarkRun) -> dict[str, Any]:
    """What the tool prints; where nothing was completed, rates and latencies are 0, as in the tool."""
    figures = run.aggregates

    def rate(name: str) -> float:
        return figures.get(name, {}).get("mean", 0.0)

    return {
        "duration": run.duration,
        "completed": figures["requests"]["ok"],
        "failed": len(run) - figures["requests"]["ok"],
        "total_input_tokens": figures["tokens"]["prompt"],
        "total_output_tokens": figures["tokens"]["output"],
        "request_throughput": rate("request_throughput"),
        "request_goodput": None,
        "output_throughput": rate("output_throughput"),
        "total_token_throughput": rate("total_throughput"),
        **{
            f"{key}_{suffix}_ms": 1e3 * figures.get(metric, {}).get(statistic, 0.0)
            for metric, suffix in _METRICS.items()
            for statistic, key in _STATISTICS.items()
        },
    }


def _arrays(run: BenchmarkRun) -> dict[str, Any]:
    """An item a request; the times of a failed one are 0, as in the tool."""
    ok = run.status == OK
    arrays = {
        "input_lens": run.prompt.tolist(),
        "output_lens": run.output.tolist(),
        "ttfts": np.where(ok, run.ttft, 0.0).tolist(),
        "latencies": np.where(ok, run.e2e, 0.0).tolist(),
        "start_times": run.arrival.tolist(),
        "cached_tokens": run.cached.tolist(),
        "errors": list(run.errors),
    }
    if run.gaps is not None and run.gap_starts is not None:
        gaps, bounds = run.gaps.round(_DIGITS).tolist(), run.gap_starts.tolist()
        arrays["itls"] = [gaps[start:end] for start, end in pairwise(bounds)]
    return arrays
