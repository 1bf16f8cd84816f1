"""The summary of one run: everything that is printed about it, and nothing that needs a second run."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capsim.errors import BadInput
from capsim.fleet.log import Outcome, RunLog
from capsim.measure.gates import Gate, check_gates
from capsim.measure.goodput import Goodput, goodput
from capsim.measure.inter_token import inter_token_gaps
from capsim.measure.kv_cache import KvCache
from capsim.measure.latency import (
    TTFT_PARTS,
    RequestLatencies,
    TtftParts,
    engine_latencies,
    failed,
    user_latencies,
)
from capsim.measure.leaps import Occupancy, leaps_since
from capsim.measure.objectives import Objectives
from capsim.measure.percentile import Distribution, percentiles
from capsim.measure.priorities import PriorityLatency, by_priority

Rows = NDArray[np.bool_]


@dataclass(frozen=True)
class Counts:
    """How the measured requests ended; `cut` more came before them as warm-up and are left out."""

    offered: int
    completed: int
    rejected: int
    lost: int
    unfinished: int
    cut: int
    preemptions: int

    @property
    def error_rate(self) -> float:
        """Share of the offered requests that were not completed."""
        return 1 - self.completed / self.offered


@dataclass(frozen=True)
class Throughput:
    """Rates per second over the measured window.

    Attributes:
        window_start, window_end: the first and the last arrival measured, seconds; where all arrive at once,
            the window ends with the last completion.
        offered: requests that arrived in the window; NaN where all arrive at once.
        requests: requests completed in the window, warm-up included if it ended there.
        input_tokens, output_tokens, total_tokens: tokens of the requests completed in the window.
    """

    window_start: float
    window_end: float
    offered: float
    requests: float
    input_tokens: float
    output_tokens: float
    total_tokens: float


@dataclass(frozen=True)
class LatencyTable:
    """Latency over all measured requests, seconds; a failed request counts as infinite in percentiles."""

    ttft: Distribution
    tpot: Distribution
    itl: Distribution
    e2e: Distribution


@dataclass(frozen=True)
class Summary:
    """One run in figures.

    Attributes:
        counts: how requests ended.
        error_rate: share of the offered requests that were not completed.
        throughput: rates offered and served, whatever the latency.
        user: latency as the user observes it.
        engine: latency inside the engine, from its queue.
        itl_bound: relative error of the inter-token percentiles, 0 if exact.
        ttft_parts: mean seconds of each part of TTFT over completed requests.
        ttft_parts_at_p95: the same parts of the one request that is the p95 of the completed ones' TTFT.
        gates: every objective and how the run stood to it.
        goodput: what was served inside the objectives.
        occupancy: how full the replicas were.
        kv_cache: how full their KV caches were, what was found there and what was computed twice.
        priorities: latency of each priority's users; empty where all requests have the same.
    """

    counts: Counts
    error_rate: float
    throughput: Throughput
    user: LatencyTable
    engine: LatencyTable
    itl_bound: float
    ttft_parts: dict[str, float]
    ttft_parts_at_p95: dict[str, float]
    gates: tuple[Gate, ...]
    goodput: Goodput
    occupancy: Occupancy
    kv_cache: KvCache
    priorities: tuple[PriorityLatency, ...]

    @property
    def passed(self) -> bool:
        """Whether every gate passed."""
        return all(gate.passed for gate in self.gates)

    def as_dict(self) -> dict[str, Any]:
        """Turn into what JSON can hold; a figure that is infinite or does not exist becomes None."""
        plain: dict[str, Any] = _finite(asdict(self))
        return {**plain, "passed": self.passed}


def summarize(log: RunLog, objectives: Objectives, cut: int = 0) -> Summary:
    """Summarize one run.

    Args:
        log: what the run recorded.
        objectives: the gates.
        cut: requests to leave out at the start as warm-up; never for traces and drills. Of the leaps, those
            before the first measured arrival are left out with them; gaps around preemptions, which carry no
            time, are kept.

    Raises:
        BadInput: nothing is left to measure.
    """
    requests = log.requests
    measured: Rows = np.arange(len(requests.arrival)) >= cut
    if not measured.any():
        raise BadInput(
            f"no request is left to measure: {len(requests.arrival)} recorded, {cut} cut as warm-up"
        )
    lost = failed(log)[measured]
    output = log.samples * requests.output[measured]
    mean_parts, p95_parts = _part_figures(TtftParts(log), measured & ~failed(log))
    throughput = _throughput(log, measured)
    leaps = leaps_since(log.leaps, throughput.window_start) if cut else log.leaps
    gaps = inter_token_gaps(leaps, log.resumed_gaps, unserved=int((output[lost] - log.samples).sum()))
    itl = Distribution.of_parts(gaps.parts)
    engine = _table(engine_latencies(log).only(slice(cut, None)), itl)
    user = user_latencies(log).only(slice(cut, None))
    counts = _counts(log, measured)
    return Summary(
        counts=counts,
        error_rate=counts.error_rate,
        throughput=throughput,
        user=_table(user, itl),
        engine=engine,
        itl_bound=gaps.bound,
        ttft_parts=mean_parts,
        ttft_parts_at_p95=p95_parts,
        gates=check_gates(objectives, user, gaps, lost),
        goodput=goodput(objectives, user, output, _span(log, measured)),
        occupancy=Occupancy.of(leaps),
        kv_cache=KvCache.of(log, leaps, measured),
        priorities=by_priority(log, measured),
    )


def _counts(log: RunLog, measured: Rows) -> Counts:
    outcomes = np.bincount(log.requests.outcome[measured], minlength=len(Outcome)).tolist()
    return Counts(
        offered=int(measured.sum()),
        completed=outcomes[Outcome.COMPLETED],
        rejected=outcomes[Outcome.REJECTED],
        lost=outcomes[Outcome.LOST],
        unfinished=outcomes[Outcome.UNFINISHED],
        cut=int((~measured).sum()),
        preemptions=int(log.requests.preemptions[measured].sum()),
    )


def _throughput(log: RunLog, measured: Rows) -> Throughput:
    requests = log.requests
    arrival = requests.arrival[measured]
    start, last = float(arrival.min()), float(arrival.max())
    end = last if last > start else max(last, log.end)
    length = end - start
    done = ~failed(log) & (requests.finish >= start) & (requests.finish <= end)

    def rate(amount: float) -> float:
        return amount / length if length else float("nan")

    prompt, output = int(requests.prompt[done].sum()), log.samples * int(requests.output[done].sum())
    return Throughput(
        window_start=start,
        window_end=end,
        offered=rate(len(arrival)) if last > start else float("nan"),
        requests=rate(int(done.sum())),
        input_tokens=rate(prompt),
        output_tokens=rate(output),
        total_tokens=rate(prompt + output),
    )


def _span(log: RunLog, measured: Rows) -> float:
    """Seconds in which the measured requests were served.

    The time in which they arrived or the time in which they finished, whichever is longer. In a steady run
    both are the same but for the spread of single latencies; in an overloaded one work goes on after the last
    arrival, and dividing by the arrivals' time would report more than the fleet can do.
    """
    arrival = log.requests.arrival[measured]
    finish = log.requests.finish[measured & ~failed(log)]
    if len(finish) == 0:
        return max(float(np.ptp(arrival)), log.end - float(arrival.min())) or float("inf")
    span = max(float(np.ptp(arrival)), float(np.ptp(finish)))
    return span or float(finish.max() - arrival.min())


def _table(latencies: RequestLatencies, itl: Distribution) -> LatencyTable:
    return LatencyTable(
        ttft=Distribution.of(latencies.ttft),
        tpot=Distribution.of(latencies.tpot),
        itl=itl,
        e2e=Distribution.of(latencies.e2e),
    )


def _part_figures(parts: TtftParts, completed: Rows) -> tuple[dict[str, float], ...]:
    """Mean of each part, and each part of the request at p95; they add up to the mean and the p95 of TTFT."""
    if not completed.any():
        return (dict.fromkeys(TTFT_PARTS, float("nan")),) * 2
    ttft = parts.total[completed]
    p95 = int(np.flatnonzero(ttft == percentiles(ttft, [95])[0])[0])
    del ttft
    figures = {}
    for name in TTFT_PARTS:
        column = parts.of(name)[completed]
        figures[name] = float(column.mean()), float(column[p95])
    means, at_p95 = zip(*figures.values(), strict=True)
    return dict(zip(TTFT_PARTS, means, strict=True)), dict(zip(TTFT_PARTS, at_p95, strict=True))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
