"""The reader of guidellm's ``benchmarks.json`` or ``benchmarks.yaml``, version 2 of its format.

Keys and units are those of guidellm 0.8: unix seconds for points in time, seconds for the latency of a
request, milliseconds where a key ends in ``_ms``. The file has the first and the last token of a request,
none between.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from capsim.benchmark.aggregates import MILLISECOND, Figures
from capsim.benchmark.benchmark_file import BenchmarkFile
from capsim.benchmark.definitions import (
    Columns,
    Definition,
    Seconds,
    itl_weighted,
    nearest_rank,
    tpot_with_first,
)
from capsim.benchmark.fields import Fields
from capsim.benchmark.record import ERROR, INCOMPLETE, OK, BenchmarkRun
from capsim.benchmark.request_rows import RequestRow, token_count, with_requests

TOOL = "guidellm"


def tpot_weighted(columns: Columns) -> Seconds:
    """The time per token of each request, the wait for the first included, once for each of its tokens.

    Shape (sum(output),). The tool weighs its summary so; its latency of a request ends a little after the
    last token, which its own TPOT and ITL do not count.
    """
    return np.repeat(tpot_with_first(columns), np.maximum(columns.output, 0))


DEFINITION = Definition(TOOL, tpot=tpot_weighted, itl=itl_weighted, percentile=nearest_rank)

_VERSION = 2
_STATUS = {"successful": OK, "errored": ERROR, "incomplete": INCOMPLETE}
_SUMMARIES = (
    ("time_to_first_token_ms", "ttft", MILLISECOND),
    ("time_per_output_token_ms", "tpot", MILLISECOND),
    ("inter_token_latency_ms", "itl", MILLISECOND),
    ("request_latency", "e2e", 1.0),
    ("request_scheduled_latency", "request_scheduled_latency", 1.0),
    ("requests_per_second", "request_throughput", 1.0),
    ("prompt_tokens_per_second", "input_throughput", 1.0),
    ("output_tokens_per_second", "output_throughput", 1.0),
    ("tokens_per_second", "total_throughput", 1.0),
    ("request_goodput", "goodput", 1.0),
    ("request_concurrency", "request_concurrency", 1.0),
)
"""Keys of the file's metrics, the record's names for them, and their unit."""

_STATISTICS = {"mean": "mean", "std_dev": "std", "min": "min", "max": "max"}
_PERCENTILES = {
    "p001": "p0.1",
    "p01": "p1",
    "p05": "p5",
    "p10": "p10",
    "p25": "p25",
    "p50": "p50",
    "p75": "p75",
    "p90": "p90",
    "p95": "p95",
    "p99": "p99",
    "p999": "p99.9",
}


def recognizes(data: Any) -> bool:
    """The first value of the file is a report of this tool, of any version."""
    if not isinstance(data, dict) or not isinstance(data.get("benchmarks"), list):
        return False
    metadata = data.get("metadata")
    return "args" in data or (isinstance(metadata, dict) and "guidellm_version" in metadata)


def read(file: BenchmarkFile) -> list[BenchmarkRun]:
    """Every benchmark of a report: one for each rate or number of streams that was tried.

    A request arrives when the client sends it, which for a schedule that the client fell behind is later than
    planned. Cancelled requests are incomplete: the run's own limit ended them, not the server.

    Raises:
        BadInput: a report of another version, or a value that is not what it must be.
    """
    report = Fields.of(file)
    metadata = report.below("metadata")
    version = None if metadata is None else metadata.number("version")
    if metadata is None or version != _VERSION:
        found = "has no version" if version is None else f"is version {version:g}"
        report.refuse(("metadata", "version"), found, f"version {_VERSION}")
    tool_version = metadata.text("guidellm_version")
    benchmarks = report.objects("benchmarks")
    if not benchmarks:
        report.refuse("benchmarks", "is empty", "at least one benchmark")
    return [_run(benchmark, tool_version) for benchmark in benchmarks]


def _run(benchmark: Fields, tool_version: str) -> BenchmarkRun:
    for key in ("requests", "metrics", "config"):
        if not benchmark.has(key):
            benchmark.refuse(key, f"has no {key}", "a benchmark of guidellm")
    rows = _rows(benchmark)
    aggregates = _aggregates(benchmark)
    duration = benchmark.number("duration")
    run = BenchmarkRun(
        tool=TOOL,
        tool_version=tool_version,
        source=benchmark.file.source,
        sha256=benchmark.file.sha256,
        model=_model(benchmark),
        duration=np.nan if duration is None else duration,
        failures_visible=True,
        aggregates=aggregates,
        remarks=_remarks(benchmark, rows, aggregates),
        **_load(benchmark),
    )
    return with_requests(run, rows)


def _load(benchmark: Fields) -> dict[str, Any]:
    """What the strategy offers, as BenchmarkRun names it."""
    config = benchmark.below("config")
    strategy = None if config is None else config.below("strategy")
    if strategy is None:
        return {}
    kind = strategy.text("type_")
    rate = strategy.rate("rate")
    streams = strategy.whole("streams", least=1)
    if kind == "synchronous":
        streams = 1
    shown = rate if rate is not None else streams
    return {
        "label": kind if shown is None else f"{kind}@{shown:g}",
        "request_rate": rate,
        "burstiness": 1.0 if kind == "poisson" else None,
        "concurrency": strategy.whole("max_concurrency", least=1) if streams is None else streams,
    }


def _model(benchmark: Fields) -> str:
    config = benchmark.below("config")
    backend = None if config is None else config.below("backend")
    return "" if backend is None else backend.text("model")


def _rows(benchmark: Fields) -> list[RequestRow]:
    requests = benchmark.below("requests")
    assert requests is not None
    return [_row(each, status) for key, status in _STATUS.items() for each in requests.objects(key)]


def _row(request: Fields, status: int) -> RequestRow:
    start = request.number("request_start_time")
    ttft = request.number("time_to_first_token_ms")
    latency = request.number("request_latency")
    info = request.below("info")
    return RequestRow(
        start=np.nan if start is None else start,
        ttft=np.nan if ttft is None else ttft * MILLISECOND,
        e2e=np.nan if latency is None or status != OK else latency,
        prompt=token_count(request, "prompt_tokens"),
        output=token_count(request, "output_tokens"),
        cached=token_count(request, "cached_tokens"),
        status=status,
        error="" if info is None or status == OK else info.text("error"),
    )


def _aggregates(benchmark: Fields) -> Figures:
    """Summaries of the successful requests, but for those of no request, which the tool writes as zeros."""
    metrics = benchmark.below("metrics")
    assert metrics is not None
    found: Figures = {}
    for key, metric, unit in _SUMMARIES:
        by_status = metrics.below(key)
        summary = None if by_status is None else by_status.below("successful")
        if summary is not None and summary.number("count"):
            found[metric] = _statistics(summary, unit)
    for key, name in (("prompt_token_count", "prompt"), ("output_token_count", "output")):
        by_status = metrics.below(key)
        summary = None if by_status is None else by_status.below("successful")
        total = None if summary is None else summary.number("total_sum")
        if total is not None:
            found.setdefault("tokens", {})[name] = total
    totals = metrics.below("request_totals")
    if totals is not None:
        counts = {"ok": "successful", "error": "errored", "incomplete": "incomplete"}
        found["requests"] = {
            name: count for name, key in counts.items() if (count := totals.number(key)) is not None
        }
    attainment = metrics.number("slo_attainment", most=1.0)
    if attainment is not None:
        found["slo_attainment"] = {"mean": attainment}
    return found


def _statistics(summary: Fields, unit: float) -> dict[str, float]:
    percentiles = summary.below("percentiles")
    found = {name: summary.number(key) for key, name in _STATISTICS.items()}
    if percentiles is not None:
        found |= {name: percentiles.number(key) for key, name in _PERCENTILES.items()}
    return {name: value * unit for name, value in found.items() if value is not None}


def _remarks(benchmark: Fields, rows: list[RequestRow], aggregates: Figures) -> tuple[str, ...]:
    """The file's own warnings, and requests that it counts without listing them."""
    remarks = [
        f"guidellm warns: {text}" for each in benchmark.objects("warnings") if (text := each.text("message"))
    ]
    counted = sum(aggregates.get("requests", {}).values())
    if counted and counted != len(rows):
        remarks.append(
            f"it lists {len(rows)} requests and counts {counted:g}; the others are in its figures alone"
        )
    return tuple(remarks)
