"""The reader of what ``vllm bench serve --save-result`` writes, with ``--save-detailed`` or without.

Keys and units are those of vLLM 0.33; older files lack some. Arrays are in seconds, aggregates in
milliseconds. A user's ``--metadata KEY=VALUE`` stands among the tool's own keys, as text.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from capsim.benchmark.aggregates import Figures, figures, latencies
from capsim.benchmark.benchmark_file import BenchmarkFile
from capsim.benchmark.definitions import Definition
from capsim.benchmark.fields import Fields
from capsim.benchmark.record import OK, BenchmarkRun
from capsim.benchmark.request_arrays import RequestArrays, required_counts

TOOL = "vllm bench serve"
DEFINITION = Definition(TOOL)

_METRICS = {"ttft": "ttft", "tpot": "tpot", "itl": "itl", "e2el": "e2e"}
_FIGURES = (
    ("completed", "requests", "ok"),
    ("failed", "requests", "error"),
    ("total_input_tokens", "tokens", "prompt"),
    ("total_output_tokens", "tokens", "output"),
    ("request_throughput", "request_throughput", "mean"),
    ("output_throughput", "output_throughput", "mean"),
    ("max_output_tokens_per_s", "output_throughput", "max"),
    ("total_token_throughput", "total_throughput", "mean"),
    ("request_goodput", "goodput", "mean"),
    ("max_concurrent_requests", "concurrency", "max"),
)


def recognizes(data: Any) -> bool:
    """The first JSON value of the file is a run of this tool."""
    marks = {"num_prompts", "model_id", "completed", "duration", "request_throughput"}
    return isinstance(data, dict) and marks <= data.keys()


def read(file: BenchmarkFile) -> list[BenchmarkRun]:
    """Every run of a file: one, or as many as ``--append-result`` put there.

    Requests without text in ``errors`` and with output are ok; the file has no mask of its own. A request
    arrives when the client sends it, which under ``max_concurrency`` is after its wait for a free place.

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
        label=fields.label("label"),
        model=fields.text("model_id"),
        request_rate=None if fields.has("ramp_up_strategy") else fields.rate("request_rate"),
        burstiness=fields.number("burstiness"),
        concurrency=fields.whole("max_concurrency", least=1),
        duration=duration,
        arrival=_arrivals(arrays.start, status == OK, duration),
        **arrays.columns(status),
        failures_visible=arrays.tells_failures or fields.has("failed"),
        aggregates=_aggregates(fields, completed),
        remarks=(*arrays.remarks(status, completed), *_remarks(fields)),
    )


def _arrivals(start: NDArray[np.float64], ok: NDArray[np.bool_], duration: float) -> NDArray[np.float64]:
    """Seconds from the first, shape (n,), of times of a clock that starts anywhere.

    A request that failed before it was sent has a start of 0, which is a time only if the others are near it.
    """
    if not len(start) or np.isnan(start).all():
        return start
    never = ~ok & (start == 0) & (np.nanmax(start) > duration)
    sent = np.where(never, np.nan, start)
    return sent - float(np.nanmin(sent))


def _aggregates(fields: Fields, completed: int) -> Figures:
    """What the tool printed; the zeros that it prints for latencies of no request are left out."""
    return figures(fields, _FIGURES) | (latencies(fields, _METRICS) if completed else {})


def _remarks(fields: Fields) -> list[str]:
    simulated = fields.text("simulated_by")
    remarks = [f"it was simulated by {simulated}, not measured"] if simulated else []
    if fields.has("ramp_up_strategy"):
        ramp = [str(fields.data.get(f"ramp_up_{end}_rps"))[:20] for end in ("start", "end")]
        rates = f"from {ramp[0]} to {ramp[1]} requests per second ({fields.data['ramp_up_strategy']!s:.20})"
        remarks.append(f"its rate rises {rates}; there is no one rate")
    return remarks
