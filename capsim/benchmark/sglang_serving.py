"""The reader of what SGLang's ``bench_serving`` appends to a file, with ``--output-details`` or without.

Keys and units are those of SGLang 0.5.23: JSON Lines, arrays in seconds, aggregates in milliseconds. The file
has neither start times nor latencies, so no arrivals, and a request's end is its first token's time and all
gaps after it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from capsim.benchmark.aggregates import Figures, figures, latencies
from capsim.benchmark.benchmark_file import BenchmarkFile
from capsim.benchmark.definitions import Definition
from capsim.benchmark.fields import Fields
from capsim.benchmark.record import BenchmarkRun
from capsim.benchmark.request_arrays import RequestArrays, required_counts

TOOL = "SGLang bench_serving"
DEFINITION = Definition(TOOL)

_METRICS = {"ttft": "ttft", "tpot": "tpot", "itl": "itl", "e2e_latency": "e2e"}
_FIGURES = (
    ("completed", "requests", "ok"),
    ("total_input_tokens", "tokens", "prompt"),
    ("total_output_tokens", "tokens", "output"),
    ("request_throughput", "request_throughput", "mean"),
    ("input_throughput", "input_throughput", "mean"),
    ("output_throughput", "output_throughput", "mean"),
    ("max_output_tokens_per_s", "output_throughput", "max"),
    ("total_throughput", "total_throughput", "mean"),
    ("request_goodput", "goodput", "mean"),
    ("slo_attainment", "slo_attainment", "mean"),
    ("concurrency", "concurrency", "mean"),
    ("max_concurrent_requests", "concurrency", "max"),
)
_CACHE_FIGURES = (("total_cached_tokens", "tokens", "cached"),)
_RATE_WORDS = ("inf", "trace")


def recognizes(data: Any) -> bool:
    """The first JSON value of the file is a run of this tool."""
    if not isinstance(data, dict) or not {"completed", "duration", "request_throughput"} <= data.keys():
        return False
    return "model_id" not in data and not {
        "total_output_tokens_retokenized",
        "mean_e2e_latency_ms",
    }.isdisjoint(data)


def read(file: BenchmarkFile) -> list[BenchmarkRun]:
    """Every run of a file, one a line.

    Raises:
        BadInput: a key that is missing, or that is not what it must be.
    """
    return [_run(Fields.of(file, value)) for value in range(len(file.values))]


def _run(fields: Fields) -> BenchmarkRun:
    duration, completed = required_counts(fields, TOOL)
    arrays = RequestArrays.read(fields)
    status = arrays.status
    return BenchmarkRun(
        tool=TOOL,
        source=fields.file.source,
        sha256=fields.file.sha256,
        label=fields.label("tag"),
        model=_model(fields),
        request_rate=fields.rate("request_rate", _RATE_WORDS),
        concurrency=fields.whole("max_concurrency", least=1),
        duration=duration,
        arrival=np.full(len(arrays), np.nan),
        **arrays.columns(status),
        failures_visible=arrays.tells_failures,
        aggregates=_aggregates(fields, completed),
        remarks=tuple(arrays.remarks(status, completed)),
    )


def _model(fields: Fields) -> str:
    """The model as the server names it, in a part of the file whose layout is the server's."""
    server = fields.data.get("server_info")
    model = server.get("model_path") if isinstance(server, dict) else None
    return model if isinstance(model, str) else ""


def _aggregates(fields: Fields, completed: int) -> Figures:
    """What the tool printed; the zeros that it prints for latencies of no request are left out."""
    printed = figures(fields, _FIGURES) | (latencies(fields, _METRICS) if completed else {})
    cache = fields.below("cache_report")
    if cache is not None:
        cached = figures(cache, _CACHE_FIGURES).get("tokens", {})
        printed["tokens"] = printed.get("tokens", {}) | cached
    return printed
