"""The benchmark report 0.2 of llm-d, YAML or JSON: figures of one stage, each with its unit.

inference-perf writes it, and llm-d turns results of other tools into it; ``scenario.load.standardized.tool``
tells which. Source: the report's schema, version 0.2.1.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from capsim.benchmark.aggregates import Figures
from capsim.benchmark.fields import Fields
from capsim.benchmark.record import BenchmarkRun

_METRICS = {
    "time_to_first_token": "ttft",
    "time_per_output_token": "tpot",
    "inter_token_latency": "itl",
    "request_latency": "e2e",
    "normalized_time_per_output_token": "normalized_time_per_output_token",
    "request_rate": "request_throughput",
    "input_token_rate": "input_throughput",
    "output_token_rate": "output_throughput",
    "total_token_rate": "total_throughput",
}
_UNITS = {
    "s": 1.0,
    "ms": 1e-3,
    "us": 1e-6,
    "s/token": 1.0,
    "ms/token": 1e-3,
    "tokens/s": 1.0,
    "queries/s": 1.0,
}
_STATISTICS = {"mean": "mean", "stddev": "std", "min": "min", "max": "max", "p0p1": "p0.1", "p99p9": "p99.9"}
_STATISTICS |= {f"p{q}": f"p{q}" for q in (1, 5, 10, 25, 50, 75, 90, 95, 99)}
_DURATION = re.compile(r"PT(?:(\d{1,6})H)?(?:(\d{1,6})M)?(?:(\d{1,9}(?:\.\d{1,12})?)S)?")


def recognizes(data: Any) -> bool:
    """The first value of the file is such a report."""
    return isinstance(data, dict) and {"version", "run", "results"} <= data.keys()


def read_report(report: Fields, tool: str) -> BenchmarkRun:
    """The run of a report; its duration is that of ``run.time``, which is longer than the requests took.

    Args:
        report: the whole file.
        tool: by whose definitions its figures are read; a report that names another gets a remark.

    Raises:
        BadInput: a unit that is not known, or a value that is not what it must be.
    """
    load = _inside(report, "scenario", "load", "standardized")
    named = "" if load is None else load.text("tool")
    stage = None if load is None else load.whole("stage")
    run = report.below("run")
    uid = "" if run is None else run.text("uid")
    aggregate = _inside(report, "results", "request_performance", "aggregate")
    if aggregate is None:
        report.refuse("results", "has no request_performance.aggregate", "figures of a run")
    remarks = [] if named in ("", tool) else [f"it is a report of {named}, read by the definitions of {tool}"]
    return BenchmarkRun(
        tool=tool,
        tool_version="" if load is None else load.text("tool_version"),
        source=report.file.source,
        sha256=report.file.sha256,
        label=uid if stage is None else f"stage {stage}",
        request_rate=None if load is None else load.number("rate_qps") or None,
        concurrency=None if load is None else load.whole("concurrency", least=1),
        duration=_duration(report),
        failures_visible=True,
        aggregates=_aggregates(aggregate),
        remarks=tuple(remarks),
    )


def _inside(fields: Fields, *keys: str) -> Fields | None:
    found: Fields | None = fields
    for key in keys:
        found = None if found is None else found.below(key)
    return found


def _duration(report: Fields) -> float:
    """Seconds of an ISO 8601 duration such as ``PT1M8.5S``; NaN where there is none."""
    time = _inside(report, "run", "time")
    text = "" if time is None else time.text("duration")
    if time is None or not text:
        return np.nan
    match = _DURATION.fullmatch(text)
    if match is None or not any(match.groups()):
        time.refuse("duration", f"is {text[:40]!r}", "a duration such as PT1M8.5S")
    hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return hours * 3600 + minutes * 60 + seconds


def _aggregates(aggregate: Fields) -> Figures:
    found: Figures = {}
    for group in ("latency", "throughput"):
        figures = aggregate.below(group)
        for key, metric in _METRICS.items():
            summary = None if figures is None else figures.below(key)
            if summary is not None:
                found[metric] = _statistics(summary)
    requests = aggregate.below("requests")
    if requests is not None:
        found |= {"requests": counts} if (counts := _counts(requests)) else {}
    return found


def _statistics(summary: Fields) -> dict[str, float]:
    units = summary.text("units")
    if units not in _UNITS:
        summary.refuse("units", f"is {units[:40]!r}", f"one of {', '.join(_UNITS)}")
    found = {name: summary.number(key) for key, name in _STATISTICS.items()}
    return {name: value * _UNITS[units] for name, value in found.items() if value is not None}


def _counts(requests: Fields) -> dict[str, float]:
    """Requests by outcome; failed and incomplete ones are among the total."""
    total = requests.whole("total")
    if total is None:
        return {}
    failures, incomplete = requests.whole("failures") or 0, requests.whole("incomplete") or 0
    if failures + incomplete > total:
        requests.refuse(
            "total", f"is {total}", f"at least the {failures + incomplete} that failed or did not end"
        )
    return {"ok": total - failures - incomplete, "error": failures, "incomplete": incomplete}
