"""The reader of aiperf's ``profile_export.jsonl`` (requests) and ``profile_export_aiperf.json`` (figures).

Keys are those of aiperf 0.13, schema 1.4: points in time are unix nanoseconds, all else states its unit
beside it. Requests are told apart by phase; a file of several phases gives a run each. Figures are of a whole
run or, in the folder of a phase, of that phase.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capsim.benchmark.aggregates import Figures
from capsim.benchmark.benchmark_file import BenchmarkFile
from capsim.benchmark.definitions import Definition, itl_of_requests, span_of_answers
from capsim.benchmark.fields import Fields
from capsim.benchmark.record import ERROR, INCOMPLETE, OK, BenchmarkRun
from capsim.benchmark.request_rows import NANOSECOND, RequestRow, nanoseconds, token_count, with_requests
from capsim.documents.dropped_row import DroppedRow

TOOL = "aiperf"

# The tool's own rates are over a phase's whole time, with the wait for the first arrival, which no file of
# requests tells; its duration is this window.
DEFINITION = Definition(TOOL, tpot=None, itl=itl_of_requests, window=span_of_answers)

METRICS = {
    "time_to_first_token": "ttft",
    "inter_token_latency": "itl",
    "request_latency": "e2e",
    "request_throughput": "request_throughput",
    "input_token_throughput": "input_throughput",
    "output_token_throughput": "output_throughput",
    "total_token_throughput": "total_throughput",
    "goodput": "goodput",
    "request_goodput": "goodput",
}
"""The record's names by the tool's; other metrics keep the tool's name."""

SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "sec": 1.0}
"""Seconds of a unit of time as the tool writes it."""

_STATISTICS = {"avg": "mean", "std": "std", "min": "min", "max": "max"}
_STATISTICS |= {f"p{q}": f"p{q}" for q in (1, 5, 10, 25, 50, 75, 90, 95, 99)}
_COUNTS = (
    ("request_count", "requests", "ok"),
    ("error_request_count", "requests", "error"),
    ("total_isl", "tokens", "prompt"),
    ("total_osl", "tokens", "output"),
)


def recognizes(data: Any) -> bool:
    """The first value of the file is a request or the figures of this tool."""
    if not isinstance(data, dict):
        return False
    metadata = data.get("metadata")
    if isinstance(metadata, dict) and "metrics" in data:
        return "request_start_ns" in metadata
    return "aiperf_version" in data or ("input_config" in data and "was_cancelled" in data)


def read(file: BenchmarkFile) -> list[BenchmarkRun]:
    """The run of a file of figures, or a run for each phase of a file of requests.

    A request arrives when the client sends it. It is incomplete where the client cancelled it, on purpose or
    at the end of its time; the tool's figures count it as an error. Warm-up requests are dropped, and those
    that the tool leaves out because their context outgrew the model.

    Raises:
        BadInput: a value that is not what it must be, or no request but of the warm-up.
    """
    if "metadata" in Fields.of(file).data:
        return _phases(file)
    return [_figures(Fields.of(file))]


def _phases(file: BenchmarkFile) -> list[BenchmarkRun]:
    phases: dict[str, list[Fields]] = {}
    dropped: list[DroppedRow] = []
    for index in range(len(file.values)):
        record = Fields.of(file, index)
        metadata = record.below("metadata")
        if metadata is None:
            record.refuse("metadata", "is missing", "a request of aiperf")
        reason = _left_out(metadata)
        if reason:
            dropped.append(DroppedRow(index + 1, reason))
        else:
            phases.setdefault(metadata.text("phase_name"), []).append(record)
    if not phases:
        Fields.of(file).refuse(
            "metadata", "is of a request to leave out, as all others", "requests to measure"
        )
    runs = [_phase(file, name, records) for name, records in phases.items()]
    return [replace(runs[0], dropped=tuple(dropped)), *runs[1:]]


def _left_out(metadata: Fields) -> str:
    """Why a request does not count; empty where it does."""
    if metadata.text("benchmark_phase").lower() == "warmup":
        return "warm-up"
    return "its context outgrew the model" if metadata.data.get("context_overflow_skip") is True else ""


def _phase(file: BenchmarkFile, name: str, records: Sequence[Fields]) -> BenchmarkRun:
    starts = [_start(record) for record in records]
    origin = min(starts)
    rows = [
        _row(record, (start - origin) * NANOSECOND) for record, start in zip(records, starts, strict=True)
    ]
    run = BenchmarkRun(
        tool=TOOL,
        source=file.source,
        sha256=file.sha256,
        label=name,
        failures_visible=True,
    )
    return with_requests(run, rows)


def _start(record: Fields) -> int:
    metadata = record.below("metadata")
    start = None if metadata is None else metadata.data.get("request_start_ns")
    return nanoseconds(record, ("metadata", "request_start_ns"), start)


def _row(record: Fields, start: float) -> RequestRow:
    metadata, metrics, error = record.below("metadata"), record.below("metrics"), record.below("error")
    if metadata is None or metrics is None:
        record.refuse("metrics", "is missing", "the metrics of a request")
    status = OK if error is None else ERROR
    if metadata.data.get("was_cancelled") is True:
        status = INCOMPLETE
    return RequestRow(
        start=start,
        ttft=_seconds(metrics, "time_to_first_token"),
        e2e=_seconds(metrics, "request_latency") if status == OK else math.nan,
        prompt=_tokens(metrics, "input_sequence_length", "usage_prompt_tokens"),
        output=_tokens(metrics, "output_sequence_length", "usage_completion_tokens"),
        cached=_tokens(metrics, "usage_prompt_cache_read_tokens"),
        status=status,
        error="" if error is None else _error(error),
        gaps=_gaps(metrics),
    )


def _seconds(metrics: Fields, key: str) -> float:
    metric = metrics.below(key)
    value = None if metric is None else metric.number("value")
    return math.nan if metric is None or value is None else value * _unit(metric)


def _unit(metric: Fields) -> float:
    unit = metric.text("unit")
    if unit not in SECONDS:
        metric.refuse("unit", f"is {unit[:40]!r}", f"a unit of time, one of {', '.join(SECONDS)}")
    return SECONDS[unit]


def _tokens(metrics: Fields, *keys: str) -> int:
    for key in keys:
        metric = metrics.below(key)
        if metric is not None and metric.has("value"):
            return token_count(metric, "value")
    return token_count(metrics)


def _gaps(metrics: Fields) -> NDArray[np.float64] | None:
    """Seconds between chunks with content; None where the request has no such metric."""
    metric = metrics.below("inter_chunk_latency")
    if metric is None:
        return None
    gaps = metric.seconds("value", unit=_unit(metric))
    if gaps is not None and np.isnan(gaps).any():
        metric.refuse("value", "has a gap that is null", "numbers")
    return gaps


def _error(error: Fields) -> str:
    return ": ".join(part for part in (error.text("type"), error.text("message")) if part) or "failed"


def _figures(fields: Fields) -> BenchmarkRun:
    aggregates = figures_with_units(fields, METRICS, _COUNTS)
    duration = aggregates.pop("benchmark_duration", {}).get("mean", math.nan)
    remarks = ["it is of a run that was cancelled"] if fields.data.get("was_cancelled") is True else []
    phases = _phases_of(fields)
    if len(phases) > 1:
        names = ", ".join(phase.text("name") for phase in phases)
        remarks.append(f"it is of the phases {names} together; there is no one rate")
    one = phases[0] if len(phases) == 1 else None
    return BenchmarkRun(
        tool=TOOL,
        tool_version=fields.text("aiperf_version"),
        source=fields.file.source,
        sha256=fields.file.sha256,
        label="" if one is None else one.text("name"),
        model=_model(fields),
        request_rate=None if one is None else one.rate("rate"),
        burstiness=1.0 if one is not None and one.text("type") == "poisson" else None,
        concurrency=None if one is None else one.whole("concurrency", least=1),
        duration=duration,
        failures_visible=True,
        aggregates=aggregates,
        remarks=tuple(remarks),
    )


def _phases_of(fields: Fields) -> list[Fields]:
    """The phases that figures are of: the one whose folder they are in, else all but the warm-up."""
    config = fields.below("input_config")
    phases = [] if config is None else config.objects("phases")
    folder = Path(fields.file.source).parent
    if folder.parent.name == "phases":
        return [phase for phase in phases if phase.text("name") == folder.name]
    return [phase for phase in phases if phase.text("kind") != "warmup"]


def _model(fields: Fields) -> str:
    config = fields.below("input_config")
    models = None if config is None else config.below("models")
    items = [] if models is None else models.objects("items")
    return items[0].text("name") if items else ""


def figures_with_units(
    fields: Fields, names: Mapping[str, str], counts: Sequence[tuple[str, str, str]]
) -> Figures:
    """Every metric at the top of a file that is an object with a unit; times in seconds.

    Statistics that are missing, null or infinite are left out; a failure that counts as an infinite wait
    makes them so.

    Args:
        fields: the file.
        names: the record's names by the tool's; other metrics keep the tool's name.
        counts: single numbers: key, metric and statistic of each.

    Raises:
        BadInput: a statistic that is no number, or a negative one of a metric in `names`.
    """
    found: Figures = {}
    numbers = {key: (metric, statistic) for key, metric, statistic in counts}
    for key, value in fields.data.items():
        if not isinstance(value, dict) or "unit" not in value:
            continue
        metric = Fields(fields.file, fields.value, (*fields.path, key), value)
        statistics = _statistics(metric, signed=key not in names and key not in numbers)
        if key in numbers and "mean" in statistics:
            name, statistic = numbers[key]
            found.setdefault(name, {})[statistic] = statistics["mean"]
        elif statistics:
            found[names.get(key, key)] = statistics
    return found


def _statistics(metric: Fields, *, signed: bool) -> dict[str, float]:
    unit = SECONDS.get(metric.text("unit"), 1.0)
    found = {}
    for key, name in _STATISTICS.items():
        value = metric.data.get(key)
        if isinstance(value, float) and not math.isfinite(value):
            continue
        number = metric.number(key, least=-1e18 if signed else 0.0, most=1e18)
        if number is not None:
            found[name] = number * unit
    return found
