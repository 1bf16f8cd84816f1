"""What each tool means by its metrics, so that a simulated run can be summarized as the tool would have.

Time to first token and end-to-end latency mean the same in every tool that capsim reads: from sending the
request to the first chunk with content, and to the last. The others differ::

    tool                   TPOT of a request               ITL                             percentiles
    vllm bench serve       (e2e - ttft) / (output - 1)     every gap between chunks        linear
    SGLang bench_serving   (e2e - ttft) / (output - 1)     every gap, divided among the    linear
                                                           tokens of its chunk
    guidellm               e2e / output                    mean gap of a request, once     nearest rank
                                                           for each of its gaps
    inference-perf         (e2e - ttft) / (output - 1)     every gap                       linear
    aiperf, genai-perf     -                               mean gap of a request, once     linear

This is what their sources and files say as of late 2026. A request of one output token has no TPOT and no ITL
in any of them, but for the TPOT of guidellm.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capsim.benchmark.record import OK, BenchmarkRun

Seconds = NDArray[np.float64]
Tokens = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Columns:
    """What metrics are computed from, measured or simulated; all requests are counted.

    Attributes:
        ttft, e2e: seconds, shape (n,).
        output: tokens, shape (n,).
        gaps: seconds between chunks of the output, pooled, shape (k,); None: unknown.
    """

    ttft: Seconds
    e2e: Seconds
    output: Tokens
    gaps: Seconds | None = None


def tpot_after_first(columns: Columns) -> Seconds:
    """Time of the tokens after the first over their number, shape (n,); NaN for fewer than two tokens."""
    return _ratio(columns.e2e - columns.ttft, columns.output - 1)


def tpot_with_first(columns: Columns) -> Seconds:
    """Time of all tokens with the wait for the first over their number, shape (n,); NaN without tokens."""
    return _ratio(columns.e2e, columns.output)


def _ratio(seconds: Seconds, tokens: Tokens) -> Seconds:
    ratio = np.full(len(tokens), np.nan)
    np.divide(seconds, tokens, out=ratio, where=tokens > 0)
    return ratio


def itl_pooled(columns: Columns) -> Seconds:
    """Every gap of every request, shape (k,); none where gaps are unknown."""
    return np.zeros(0) if columns.gaps is None else columns.gaps


def itl_of_requests(columns: Columns) -> Seconds:
    """The mean gap between tokens of each request, shape (n,); NaN for fewer than two tokens."""
    return tpot_after_first(columns)


def itl_weighted(columns: Columns) -> Seconds:
    """The mean gap between tokens of each request, once for each of its gaps, shape (sum(output - 1),)."""
    return np.repeat(tpot_after_first(columns), np.maximum(columns.output - 1, 0))


def linear(values: Seconds, q: float) -> float:
    """Percentile q, 0 to 100, interpolated between the two nearest values; NaN without values."""
    return float(np.percentile(values, q)) if len(values) else math.nan


def nearest_rank(values: Seconds, q: float) -> float:
    """The smallest value that at least q percent of the values do not exceed; NaN without values."""
    return float(np.percentile(values, q, method="inverted_cdf")) if len(values) else math.nan


def ok_only(status: Tokens) -> Mask:
    """Requests that were answered in full, shape (n,)."""
    counted: Mask = status == OK
    return counted


def stated_duration(run: BenchmarkRun) -> float:
    """Seconds that the tool itself states, from its start to the end of its last request; NaN unknown."""
    return run.duration


def span_of_answers(run: BenchmarkRun) -> float:
    """Seconds from the first to the end of the last of the requests that were answered; NaN unknown."""
    if not run.ok.any():
        return math.nan
    sent = run.arrival[run.ok]
    return float(np.max(sent + run.e2e[run.ok]) - np.min(sent))


def throughput(
    run: BenchmarkRun,
    counts: Callable[[Tokens], Mask] = ok_only,
    window: Callable[[BenchmarkRun], float] = stated_duration,
) -> dict[str, float]:
    """Requests and tokens of the counted requests over the window, per second.

    Rates whose tokens or window are unknown are left out.
    """
    seconds = window(run)
    if not (len(run) and seconds > 0):
        return {}
    counted = counts(run.status)
    rates = {"request_throughput": int(np.count_nonzero(counted)) / seconds}
    for name, tokens in (("input_throughput", run.prompt), ("output_throughput", run.output)):
        if (tokens[counted] >= 0).all():
            rates[name] = float(tokens[counted].sum()) / seconds
    if {"input_throughput", "output_throughput"} <= rates.keys():
        rates["total_throughput"] = rates["input_throughput"] + rates["output_throughput"]
    return rates


@dataclass(frozen=True)
class Definition:
    """One tool's metrics.

    Attributes:
        name: the tool.
        tpot: seconds per output token of each request; NaN where the tool leaves the request out. None: the
            tool has no such metric.
        itl: the values that the tool takes percentiles of; NaN is left out.
        percentile: of values without NaN, at q of 0 to 100.
        counts: which requests enter latencies and throughput, by status.
        window: seconds over which throughput is taken.
    """

    name: str
    tpot: Callable[[Columns], Seconds] | None = tpot_after_first
    itl: Callable[[Columns], Seconds] = itl_pooled
    percentile: Callable[[Seconds, float], float] = linear
    counts: Callable[[Tokens], Mask] = ok_only
    window: Callable[[BenchmarkRun], float] = stated_duration

    def metrics(self, columns: Columns) -> dict[str, Seconds]:
        """Values of ``ttft``, ``itl``, ``e2e`` and, where the tool has it, ``tpot``, without NaN."""
        values = {"ttft": columns.ttft, "itl": self.itl(columns), "e2e": columns.e2e}
        if self.tpot is not None:
            values["tpot"] = self.tpot(columns)
        return {metric: each[~np.isnan(each)] for metric, each in values.items()}

    def summary(
        self, columns: Columns, percentiles: Iterable[float] = (50, 90, 95, 99)
    ) -> dict[str, dict[str, float]]:
        """Metric, then ``mean``, ``std`` and percentiles such as ``p99``, in seconds.

        Metrics without values are left out. The standard deviation is that of all values, not an estimate
        from a sample, as numpy's default.
        """
        wanted = tuple(percentiles)
        return {
            metric: {
                "mean": float(values.mean()),
                "std": float(values.std()),
                **{f"p{q:g}": self.percentile(values, q) for q in wanted},
            }
            for metric, values in self.metrics(columns).items()
            if len(values)
        }

    def counted(self, run: BenchmarkRun) -> Columns:
        """The columns of the requests of a run that this tool counts."""
        counted = self.counts(run.status)
        gaps = None
        if run.gaps is not None and run.gap_starts is not None:
            gaps = run.gaps[np.repeat(counted, np.diff(run.gap_starts))]
        return Columns(run.ttft[counted], run.e2e[counted], run.output[counted], gaps)

    def throughput(self, run: BenchmarkRun) -> dict[str, float]:
        """Rates per second of the requests that this tool counts, over its window; see `throughput`."""
        return throughput(run, self.counts, self.window)
