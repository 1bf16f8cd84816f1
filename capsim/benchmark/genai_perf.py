"""The reader of what genai-perf writes: ``profile_export.json`` and ``profile_export_genai_perf.json``.

The first holds requests as Perf Analyzer recorded them, the second figures; aiperf replaced the tool. Keys
are those of genai-perf 0.0.16. Points in time are nanoseconds of a clock that starts anywhere. Requests carry
texts and no numbers of tokens: the tool tokenizes the texts afterwards. Tokens are unknown here but where the
server stated its usage or the output is token ids.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from capsim.benchmark.aiperf import METRICS, figures_with_units
from capsim.benchmark.benchmark_file import BenchmarkFile
from capsim.benchmark.definitions import Definition, itl_of_requests, span_of_answers
from capsim.benchmark.fields import MOST_TOKENS, Fields
from capsim.benchmark.record import ERROR, UNKNOWN, BenchmarkRun
from capsim.benchmark.request_rows import NANOSECOND, RequestRow, nanoseconds, with_requests

TOOL = "genai-perf"
DEFINITION = Definition(TOOL, tpot=None, itl=itl_of_requests, window=span_of_answers)

EMPTY = "no response with content"
"""Error of a request that the tool itself leaves out without a word."""

_COUNTS = (("request_count", "requests", "ok"),)


def recognizes(data: Any) -> bool:
    """The first value of the file is requests or figures of this tool; those of aiperf have a version."""
    if not isinstance(data, dict):
        return False
    if isinstance(data.get("experiments"), list):
        return True
    latency = data.get("request_latency")
    return (
        "input_config" in data
        and isinstance(latency, dict)
        and "unit" in latency
        and "aiperf_version" not in data
    )


def read(file: BenchmarkFile) -> list[BenchmarkRun]:
    """The run of a file of figures, or a run for each load of a file of requests.

    Responses without text are no tokens, as in the tool. A request without any other is an error; requests
    that failed are not in the file.

    Raises:
        BadInput: a value that is not what it must be.
    """
    fields = Fields.of(file)
    if "experiments" not in fields.data:
        return [_figures(fields)]
    experiments = fields.objects("experiments")
    if not experiments:
        fields.refuse("experiments", "is empty", "at least one experiment")
    return [_experiment(experiment) for experiment in experiments]


def _experiment(experiment: Fields) -> BenchmarkRun:
    load = experiment.below("experiment")
    if load is None or not experiment.has("requests"):
        missing = "experiment" if load is None else "requests"
        experiment.refuse(missing, "is missing", "an experiment of genai-perf")
    mode, value = load.text("mode"), load.number("value")
    requests = experiment.objects("requests")
    sent = [nanoseconds(each, ("timestamp",), each.data.get("timestamp")) for each in requests]
    origin = min(sent, default=0)
    rows = [
        _row(request, start, (start - origin) * NANOSECOND)
        for request, start in zip(requests, sent, strict=True)
    ]
    run = BenchmarkRun(
        tool=TOOL,
        source=experiment.file.source,
        sha256=experiment.file.sha256,
        label=mode if value is None else f"{mode} {value:g}",
        request_rate=value or None if mode == "request_rate" else None,
        concurrency=load.whole("value", least=1) if mode == "concurrency" else None,
    )
    return with_requests(run, rows)


def _row(request: Fields, sent: int, start: float) -> RequestRow:
    times, responses = _responses(request)
    content = [time - sent for time, response in zip(times, responses, strict=True) if response.content]
    waits = np.array(content, dtype=np.float64) * NANOSECOND
    if len(waits) and (waits[0] < 0 or (np.diff(waits) < 0).any()):
        request.refuse(
            "response_timestamps", "fall, or begin before timestamp", "times that rise from timestamp on"
        )
    if not len(waits):
        return RequestRow(start=start, status=ERROR, error=EMPTY, gaps=())
    usage: dict[str, int] = {}
    for response in responses:
        usage |= response.usage
    ids = [response.ids for response in responses]
    return RequestRow(
        start=start,
        ttft=float(waits[0]),
        e2e=float(waits[-1]),
        prompt=usage.get("prompt_tokens", UNKNOWN),
        output=usage.get("completion_tokens", sum(ids) if any(ids) else UNKNOWN),
        gaps=np.diff(waits),
    )


@dataclass(frozen=True)
class _Response:
    """What one response brought: whether text or tokens, the server's usage, and how many token ids."""

    content: bool
    usage: Mapping[str, int]
    ids: int = 0


def _responses(request: Fields) -> tuple[list[int], list[_Response]]:
    """When each response came, nanoseconds, and what it brought: something where texts are not kept."""
    key = "response_timestamps"
    stamps = request.items(key) or []
    times = [nanoseconds(request, (key, index), stamp) for index, stamp in enumerate(stamps)]
    if not request.has("response_outputs"):
        return times, [_Response(True, {})] * len(times)
    outputs = request.objects("response_outputs")
    if len(outputs) != len(times):
        request.refuse(
            "response_outputs", f"has {len(outputs)} items", f"{len(times)} as in response_timestamps"
        )
    return times, [_response(output) for output in outputs]


def _response(output: Fields) -> _Response:
    ids = output.data.get("output_ids")
    if ids is not None:
        number = len(ids) if isinstance(ids, list) else 1
        return _Response(number > 0, {}, number)
    if "response" not in output.data:
        return _Response(bool(output.text("text_output")), {})
    events = [_event(text) for text in output.text("response").split("\n\n")]
    usage: dict[str, int] = {}
    for event in events:
        usage |= event.usage
    return _Response(any(event.content for event in events), usage)


def _event(text: str) -> _Response:
    """One server-sent event of a response; a part of one, which is no JSON, passes for content."""
    text = text.strip().removeprefix("data:").strip()
    if text in ("", "[DONE]"):
        return _Response(False, {})
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return _Response(not text.startswith((":", "event:")), {})
    if not isinstance(data, dict):
        return _Response(bool(data), {})
    return _Response(_has_text(data), _usage(data))


def _has_text(data: Mapping[str, Any]) -> bool:
    choices = data.get("choices")
    if choices is None:
        return bool(data.get("text_output") or data.get("generated_text"))
    choice = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(choice, dict):
        return False
    for part in (choice.get("delta"), choice.get("message")):
        if isinstance(part, dict) and (part.get("content") or part.get("reasoning_content")):
            return True
    return bool(choice.get("text"))


def _usage(data: Mapping[str, Any]) -> dict[str, int]:
    usage = data.get("usage")
    if not isinstance(usage, dict):
        return {}
    counts = {key: usage.get(key) for key in ("prompt_tokens", "completion_tokens")}
    return {key: count for key, count in counts.items() if type(count) is int and 0 <= count <= MOST_TOKENS}


def _figures(fields: Fields) -> BenchmarkRun:
    config = fields.below("input_config")
    models = None if config is None else config.texts("model_names")
    return BenchmarkRun(
        tool=TOOL,
        source=fields.file.source,
        sha256=fields.file.sha256,
        model=models[0] if models else "",
        aggregates=figures_with_units(fields, METRICS, _COUNTS),
    )
