"""A run as the benchmark report 0.2 of llm-d (YAML), which inference-perf writes for a stage.

The report has aggregates alone, each with its unit. Its tool is ``capsim``, its description says that it was
simulated, and so does a keyword; its time has a duration and no dates. Source: the report's schema, version
0.2.1, which allows no other keys than its own.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capsim.benchmark.record import BenchmarkRun
from capsim.report.export.simulated_run import SimulatedRun, statistics

FILE = "inference-perf-br.yaml"

_LATENCIES = {
    "time_to_first_token": ("ttft", "s"),
    "normalized_time_per_output_token": ("normalized_time_per_output_token", "s/token"),
    "time_per_output_token": ("tpot", "s/token"),
    "inter_token_latency": ("itl", "s/token"),
    "request_latency": ("e2e", "s"),
}
_RATES = {
    "input_token_rate": ("input_throughput", "tokens/s"),
    "output_token_rate": ("output_throughput", "tokens/s"),
    "total_token_rate": ("total_throughput", "tokens/s"),
    "request_rate": ("request_throughput", "queries/s"),
}
_STATISTICS = {"std": "stddev", "p0.1": "p0p1", "p99.9": "p99p9"}
"""Names that differ from those of the aggregates."""


def write(simulated: SimulatedRun, path: Path) -> None:
    """Write the report."""
    text = "\n".join(_yaml(_report(simulated), ""))
    path.write_text(text + "\n", encoding="utf-8")


def _report(simulated: SimulatedRun) -> dict[str, Any]:
    run = simulated.run
    origin = ", ".join(f"{key} {value}" for key, value in simulated.origin.items() if key != "simulated_by")
    description = f"simulated by {simulated.simulated_by}, not measured: {origin}"
    return {
        "version": "0.2.1",
        "run": {
            "uid": _digest(simulated),
            "eid": simulated.fingerprint,
            "time": {"duration": f"PT{run.duration:.9f}S"},
            "description": ". ".join([description, *run.remarks]),
            "keywords": ["simulated", simulated.scenario],
        },
        "scenario": {"load": _load(simulated)},
        "results": {
            "request_performance": {
                "aggregate": {
                    "requests": _requests(run),
                    "latency": _groups(run, _LATENCIES),
                    "throughput": _groups(run, _RATES),
                }
            }
        },
    }


def _digest(simulated: SimulatedRun) -> str:
    """Differs where a run differs: of what it is, when requests came and when they ended."""
    run = simulated.run
    content = hashlib.sha256(json.dumps(simulated.origin).encode())
    for column in (run.arrival, run.prompt, run.ttft, run.e2e):
        content.update(np.ascontiguousarray(column).tobytes())
    return content.hexdigest()[:16]


def _load(simulated: SimulatedRun) -> dict[str, Any]:
    run = simulated.run
    load = {
        "tool": run.tool,
        "tool_version": run.tool_version,
        "source": simulated.source,
        "input_seq_len": _lengths(run.prompt),
        "output_seq_len": _lengths(run.output[run.ok]),
        "rate_qps": run.request_rate,
        "concurrency": run.concurrency,
    }
    return {
        "metadata": {"schema_version": "0.0.1", "cfg_id": simulated.fingerprint},
        "standardized": {key: value for key, value in load.items() if value is not None},
        "native": {},
    }


def _lengths(tokens: NDArray[np.int64]) -> dict[str, Any] | None:
    if not len(tokens):
        return None
    return {
        "distribution": "other",
        "value": float(tokens.mean()),
        "min": int(tokens.min()),
        "max": int(tokens.max()),
    }


def _requests(run: BenchmarkRun) -> dict[str, Any]:
    """Requests by outcome, those that failed or did not end among the total, and lengths of the completed."""
    counts, ok = run.aggregates["requests"], run.ok
    requests: dict[str, Any] = {
        "total": len(run),
        "failures": counts["error"],
        "incomplete": counts["incomplete"],
    }
    if ok.any():
        requests["input_length"] = _named(statistics(run.prompt[ok]), "count")
        requests["output_length"] = _named(statistics(run.output[ok]), "count")
    return requests


def _groups(run: BenchmarkRun, places: Mapping[str, tuple[str, str]]) -> dict[str, Any]:
    """The figures that there are; without a completed request there are none."""
    return {
        key: _named(run.aggregates[metric], units)
        for key, (metric, units) in places.items()
        if metric in run.aggregates
    }


def _named(figures: Mapping[str, float], units: str) -> dict[str, Any]:
    return {"units": units, **{_STATISTICS.get(name, name): value for name, value in figures.items()}}


def _yaml(content: Mapping[str, Any], indent: str) -> Iterator[str]:
    """Lines of YAML that readers of 1.1 and of 1.2 agree on."""
    for key, value in content.items():
        if isinstance(value, dict) and value:
            yield f"{indent}{key}:"
            yield from _yaml(value, indent + "  ")
        else:
            yield f"{indent}{key}: {_scalar(value)}"


def _scalar(value: Any) -> str:
    """A number, a text in quotes, or a list of texts, as in JSON.

    A number has no exponent: to readers of YAML 1.1, 1e-05 is text.
    """
    if isinstance(value, float):
        return np.format_float_positional(value, trim="0")
    return json.dumps(value, ensure_ascii=False)
