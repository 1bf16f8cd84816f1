"""The reader of what inference-perf writes: requests, figures of a stage or of all, and benchmark reports.

Keys and units are those of inference-perf 0.7: seconds, those of requests on a monotonic clock that starts
anywhere. The benchmark report (BR 0.2, YAML or JSON) states a unit with each figure; other tools of llm-d
write it too.

The tool's own figures count tokens as the client tokenizes the text again, chunk by chunk. Where that yields
other numbers than the server's, so that e.g. each chunk passes for two tokens, half of its gaps between
tokens are 0 and its ITL and TPOT are off by as much. Requests are read with the server's count, and with gaps
between chunks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capsim.benchmark import benchmark_report
from capsim.benchmark.aggregates import Figures
from capsim.benchmark.benchmark_file import BenchmarkFile
from capsim.benchmark.definitions import Definition
from capsim.benchmark.fields import Fields
from capsim.benchmark.record import ERROR, OK, UNKNOWN, BenchmarkRun
from capsim.benchmark.request_rows import RequestRow, token_count, with_requests

TOOL = "inference-perf"
DEFINITION = Definition(TOOL)

_LATENCIES = {
    "time_to_first_token": "ttft",
    "time_per_output_token": "tpot",
    "inter_token_latency": "itl",
    "request_latency": "e2e",
    "normalized_time_per_output_token": "normalized_time_per_output_token",
}
_RATES = {
    "requests_per_sec": "request_throughput",
    "input_tokens_per_sec": "input_throughput",
    "output_tokens_per_sec": "output_throughput",
    "total_tokens_per_sec": "total_throughput",
}
_STATISTIC = re.compile(r"mean|min|max|median|p\d{1,2}(?:\.\d+)?")
_STAGE = re.compile(r"stage_(\d+)_lifecycle_metrics")
_MISCOUNTED = 0.01
"""Share of tokens by which the client's count may differ from the server's before it is worth a remark: a
text that is tokenized again differs by a token here and there."""


def recognizes(data: Any) -> bool:
    """The first value of the file is requests or figures of this tool."""
    if isinstance(data, list):
        first = data[0] if data else None
        return isinstance(first, dict) and {"start_time", "end_time", "error"} <= first.keys()
    figures = isinstance(data, dict) and {"load_summary", "successes", "failures"} <= data.keys()
    return figures or benchmark_report.recognizes(data)


def read(file: BenchmarkFile) -> list[BenchmarkRun]:
    """The one run of a file.

    A file of requests does not tell the stages of a run apart. Its duration is reckoned as the tool does,
    from the first sending to the last end.

    Raises:
        BadInput: a value that is not what it must be.
    """
    if isinstance(file.values[0], list):
        return [_requests(file)]
    fields = Fields.of(file)
    if benchmark_report.recognizes(fields.data):
        return [benchmark_report.read_report(fields, TOOL)]
    return [_figures(fields)]


def _requests(file: BenchmarkFile) -> BenchmarkRun:
    items = _objects(file)
    rows = [_row(item) for item in items]
    ends = [item.number("end_time") or 0.0 for item in items]
    run = BenchmarkRun(
        tool=TOOL,
        source=file.source,
        sha256=file.sha256,
        model=_model(items[0]),
        duration=max(ends) - min(row.start for row in rows),
        failures_visible=True,
        remarks=_miscount(items, rows),
    )
    return with_requests(run, rows)


def _objects(file: BenchmarkFile) -> list[Fields]:
    wrapped = Fields(file, 0, (), {})
    for index, item in enumerate(file.values[0]):
        if not isinstance(item, dict):
            wrapped.refuse(index, "is no object", "a request of inference-perf")
    return [Fields(file, 0, (index,), item) for index, item in enumerate(file.values[0])]


def _row(item: Fields) -> RequestRow:
    start, end = item.number("start_time"), item.number("end_time")
    if start is None or end is None:
        item.refuse(
            "start_time" if start is None else "end_time", "is missing", "seconds of a monotonic clock"
        )
    if end < start:
        item.refuse("end_time", f"is {end:g}, before start_time", f"at least {start:g}")
    error = item.below("error")
    status = OK if error is None else ERROR
    response, usage = _response(item)
    times = _chunk_times(response, start) if response is not None else None
    prompt, output = _tokens(item, response, usage)
    return RequestRow(
        start=start,
        ttft=times[0] - start if times is not None and len(times) else _computed(item, "time_to_first_token"),
        e2e=end - start if status == OK else np.nan,
        prompt=prompt,
        output=output,
        cached=_cached(usage),
        status=status,
        error="" if error is None else _error(error),
        gaps=None if times is None else np.diff(times),
    )


def _response(item: Fields) -> tuple[Fields | None, Fields | None]:
    """What the client measured of a response, and what the server said of its tokens; None if nothing."""
    info = item.below("info")
    response = None if info is None else info.below("response_metrics")
    return response, None if response is None else response.below("server_usage")


def _chunk_times(response: Fields, start: float) -> NDArray[np.float64] | None:
    """When each chunk with content came, seconds of the file's clock, shape (k,); None: not known.

    The times of tokens leave out chunks without text, but state the time of a chunk once for each of its
    tokens.
    """
    tokens, chunks = response.seconds("output_token_times"), response.seconds("chunk_times")
    stamped = tokens is not None and len(tokens) > 0
    key, times = ("output_token_times", tokens) if stamped else ("chunk_times", chunks)
    if times is None:
        return None
    if np.isnan(times).any() or (len(times) and times[0] < start):
        response.refuse(key, "has a time that is null or before start_time", f"times from {start:g} on")
    falls = np.diff(times) < 0
    if falls.any():
        response.refuse((key, int(np.argmax(falls)) + 1), "is before the time in front of it")
    return np.unique(times) if stamped else times


def _tokens(item: Fields, response: Fields | None, usage: Fields | None) -> tuple[int, int]:
    """Tokens of the prompt and of the output: as the server counted, else as the client did."""
    prompt = output = UNKNOWN
    if usage is not None:
        prompt = token_count(usage, "prompt_tokens", "input_tokens")
        output = token_count(usage, "completion_tokens", "output_tokens")
    if output == UNKNOWN and response is not None:
        output = token_count(response, "output_tokens")
    for place in (item.below("info"), item.below("computed_metrics")):
        if place is not None:
            prompt = token_count(place, "input_tokens") if prompt == UNKNOWN else prompt
            output = token_count(place, "output_tokens") if output == UNKNOWN else output
    return prompt, output


def _cached(usage: Fields | None) -> int:
    details = None if usage is None else usage.below("prompt_tokens_details")
    return UNKNOWN if details is None else token_count(details, "cached_tokens")


def _computed(item: Fields, key: str) -> float:
    """A figure that newer versions can write beside a request; NaN where there is none."""
    computed = item.below("computed_metrics")
    value = None if computed is None else computed.number(key)
    return np.nan if value is None else value


def _error(error: Fields) -> str:
    return ": ".join(part for part in (error.text("error_type"), error.text("error_msg")) if part) or "failed"


def _model(item: Fields) -> str:
    """The model of the request's own text; empty where that is not kept."""
    try:
        request = json.loads(item.text("request"))
    except (ValueError, RecursionError):
        return ""
    named = isinstance(request, dict) and isinstance(request.get("model"), str)
    return Fields(item.file, item.value, item.path, request).text("model") if named else ""


def _miscount(items: Sequence[Fields], rows: Sequence[RequestRow]) -> tuple[str, ...]:
    """Whether the client's times of tokens are as many as the server's tokens."""
    times = tokens = 0
    for item, row in zip(items, rows, strict=True):
        response, usage = _response(item)
        if row.status == OK and response is not None and usage is not None and row.output > 0:
            stamps = response.items("output_token_times")
            times += len(stamps) if stamps else row.output
            tokens += row.output
    if abs(times - tokens) <= _MISCOUNTED * tokens:
        return ()
    what = f"the client stamped {times} tokens where the server counted {tokens}"
    return (f"{what}; inference-perf's own ITL and TPOT are off by that, the gaps here are between chunks",)


def _figures(fields: Fields) -> BenchmarkRun:
    """The figures of a stage, or of all stages of a run."""
    load, successes, failures = (_required(fields, key) for key in ("load_summary", "successes", "failures"))
    duration = fields.number("benchmark_time_seconds")
    stage = _STAGE.search(Path(fields.file.source).name)
    rate = load.number("requested_rate")
    concurrency = load.whole("concurrency", least=1)
    return BenchmarkRun(
        tool=TOOL,
        source=fields.file.source,
        sha256=fields.file.sha256,
        label=f"stage {stage[1]}" if stage else "",
        request_rate=rate or None,
        concurrency=concurrency,
        duration=np.nan if duration is None else duration,
        failures_visible=True,
        aggregates=_aggregates(successes, failures),
    )


def _required(fields: Fields, key: str) -> Fields:
    found = fields.below(key)
    if found is None:
        fields.refuse(key, "is null", "an object")
    return found


def _aggregates(successes: Fields, failures: Fields) -> Figures:
    found: Figures = {}
    counts = {"ok": successes.number("count"), "error": failures.number("count")}
    found["requests"] = {name: count for name, count in counts.items() if count is not None}
    latency = successes.below("latency")
    for key, metric in _LATENCIES.items():
        summary = None if latency is None else latency.below(key)
        if summary is not None:
            found[metric] = _statistics(summary)
    throughput = successes.below("throughput")
    for key, metric in _RATES.items():
        rate = None if throughput is None else throughput.number(key)
        if rate is not None:
            found[metric] = {"mean": rate}
    for key, name in (("prompt_tokens", "prompt"), ("output_tokens", "output")):
        summary = successes.below(key)
        total = None if summary is None else summary.number("total")
        if total is not None:
            found.setdefault("tokens", {})[name] = total
    goodput = successes.below("goodput_metrics")
    good = None if goodput is None else goodput.number("request_goodput")
    if good is not None:
        found["goodput"] = {"mean": good}
    return found


def _statistics(summary: Fields) -> dict[str, float]:
    found = {
        "p50" if key == "median" else key: summary.number(key)
        for key in summary.data
        if _STATISTIC.fullmatch(key)
    }
    return {name: value for name, value in found.items() if value is not None}
