"""The result file of a replay, in the format of ``vllm bench serve --save-result --save-detailed``."""

from __future__ import annotations

from datetime import datetime
from itertools import pairwise
from typing import Any

import numpy as np

from calibrate.engine.replay import Replayed

_PERCENTILES = (50, 90, 95, 99)


def result(run: Replayed, model: str, label: str, rate: float | None) -> dict[str, Any]:
    """The members of the file; arrays and the duration in seconds, names with ``_ms`` in milliseconds.

    Args:
        run: what was replayed.
        model: its name.
        label: of the run.
        rate: requests a second that were asked for; None: the trace's own.
    """
    answers, requests = run.answers, run.requests
    duration = run.end - run.start
    ttfts = [answer.tokens[0] - answer.sent for answer in answers]
    latencies = [answer.tokens[-1] - answer.sent for answer in answers]
    itls = [[after - before for before, after in pairwise(answer.tokens)] for answer in answers]
    tpots = [sum(gaps) / len(gaps) for gaps in itls if gaps]
    inputs, outputs = sum(request.prompt for request in requests), sum(len(each.tokens) for each in answers)
    metrics = {"ttft": ttfts, "tpot": tpots, "itl": [gap for gaps in itls for gap in gaps], "e2el": latencies}
    return {
        "date": datetime.now().strftime("%Y%m%d-%H%M%S"),
        "endpoint_type": "in process",
        "backend": "vllm",
        "label": label,
        "model_id": model,
        "num_prompts": len(requests),
        "request_rate": rate if rate is not None else "inf",
        "burstiness": 1.0,
        "max_concurrency": None,
        "duration": duration,
        "completed": len(answers),
        "failed": 0,
        "total_input_tokens": inputs,
        "total_output_tokens": outputs,
        "request_throughput": len(requests) / duration,
        "output_throughput": outputs / duration,
        "total_token_throughput": (inputs + outputs) / duration,
        "input_lens": [request.prompt for request in requests],
        "output_lens": [len(answer.tokens) for answer in answers],
        "cached_lens": [answer.cached for answer in answers],
        "ttfts": _rounded(ttfts),
        "itls": [_rounded(gaps) for gaps in itls],
        "latencies": _rounded(latencies),
        "start_times": _rounded([answer.sent for answer in answers]),
        "errors": [""] * len(answers),
        **{
            name: value for metric, seconds in metrics.items() for name, value in _statistics(metric, seconds)
        },
    }


def _statistics(metric: str, seconds: list[float]) -> list[tuple[str, float]]:
    """Aggregates of a metric under the tool's names; none of no value."""
    if not seconds:
        return []
    found = [
        (f"mean_{metric}_ms", np.mean(seconds)),
        (f"median_{metric}_ms", np.median(seconds)),
        (f"std_{metric}_ms", np.std(seconds)),
        *((f"p{place}_{metric}_ms", np.percentile(seconds, place)) for place in _PERCENTILES),
    ]
    return [(name, 1e3 * float(value)) for name, value in found]


def _rounded(seconds: list[float]) -> list[float]:
    return [round(each, 6) for each in seconds]
