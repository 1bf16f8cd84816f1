"""Figures that vLLM and SGLang print beside the requests, under keys of the same pattern."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping

from capsim.benchmark.fields import Fields

MILLISECOND = 1e-3

_LATENCY = re.compile(r"(mean|median|std|min|max|p\d{1,3}(?:\.\d+)?)_(\w+)_ms")
_MEDIAN = "p50"

Figures = dict[str, dict[str, float]]


def latencies(fields: Fields, names: Mapping[str, str]) -> Figures:
    """Keys such as ``mean_ttft_ms`` and ``p99.9_itl_ms``, in seconds by metric and statistic.

    Text under such a key is the user's own and is left out, and so is NaN.

    Args:
        fields: the run.
        names: the record's names by the tool's; other metrics keep the tool's name.
    """
    found: Figures = {}
    for key in fields.data:
        match = _LATENCY.fullmatch(key)
        if match is None or not _is_figure(fields, key):
            continue
        milliseconds = fields.number(key)
        if milliseconds is not None:
            statistic = _MEDIAN if match[1] == "median" else match[1]
            found.setdefault(names.get(match[2], match[2]), {})[statistic] = milliseconds * MILLISECOND
    return found


def figures(fields: Fields, places: Iterable[tuple[str, str, str]]) -> Figures:
    """Single keys as figures.

    Args:
        fields: the run.
        places: key, metric and statistic of each; keys that the file lacks are left out.
    """
    found: Figures = {}
    for key, metric, statistic in places:
        if _is_figure(fields, key):
            value = fields.number(key)
            if value is not None:
                found.setdefault(metric, {})[statistic] = value
    return found


def _is_figure(fields: Fields, key: str) -> bool:
    value = fields.data.get(key)
    return not (isinstance(value, str) or (isinstance(value, float) and math.isnan(value)))
