"""One run as charts: KV blocks, batch, queue and arrivals over time, and the distributions of its latencies."""

from __future__ import annotations

import math
from collections.abc import Sequence

from capsim.report import Json
from capsim.report.knee import latency_limits
from capsim.report.number import duration, number, share
from capsim.report.page.block import Figure, Key
from capsim.report.page.chart import X_SPAN, Y_SPAN, Chart
from capsim.report.page.scale import linear, logarithmic

MOST, MEAN = Key("most", "fullest replica"), Key("mean", "mean of the replicas")
NAMED = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))
"""Percentiles that are marked on a distribution."""
HEADROOM = 1.08


def time_charts(course: Json) -> tuple[Figure, ...]:
    """KV blocks, batch, queue and arrivals over time; none where no time passed.

    Args:
        course: as `capsim.plan.course.course_result` gives it.
    """
    timeline, pool = course["timeline"], course["pool_blocks"]
    if not timeline["arrivals"]:
        return ()
    blocks = {name: [value / pool for value in timeline[f"blocks_{name}"]] for name in ("mean", "max")}
    return (
        _levels(
            course, "kv", "KV cache, share of a replica's blocks", blocks["mean"], blocks["max"], shares=True
        ),
        _levels(
            course, "batch", "Batch, sequences a replica", timeline["running_mean"], timeline["running_max"]
        ),
        _levels(
            course, "queue", "Queue, sequences a replica", timeline["waiting_mean"], timeline["waiting_max"]
        ),
        _flows(course),
    )


def distribution_charts(course: Json, gates: list[Json]) -> tuple[Figure, ...]:
    """Cumulative distributions of TTFT, TPOT, ITL and E2E as users observe them; those without a figure left out.

    Args:
        course: as `capsim.plan.course.course_result` gives it.
        gates: whose limits are drawn.
    """
    figures = (
        _distribution(course, metric, latency_limits(gates, metric))
        for metric in ("ttft", "tpot", "itl", "e2e")
    )
    return tuple(figure for figure in figures if figure is not None)


def _time_chart(course: Json, top: float, *, shares: bool = False) -> tuple[Chart, list[float], list[Key]]:
    """A chart over the run's time with its warm-up and outages, the edges of the bins, and keys of what is drawn."""
    width, bins = course["timeline"]["width"], len(course["timeline"]["arrivals"])
    edges = [width * i for i in range(bins + 1)]
    y = linear(0.0, HEADROOM * top if top else 1.0, *Y_SPAN)
    chart = Chart(linear(0.0, edges[-1], *X_SPAN), y, "time, s", y_text=share if shares else number)
    keys = []
    if course["requests"] and course["measured_from"] > width:
        chart.strip(0.0, course["measured_from"], "warm-up")
        keys.append(Key("warm-up", "warm-up, not measured", "area"))
    for start, stop in _outages(course, edges[-1]):
        chart.strip(start, stop, "outage")
    if any(change["state"] == "down" for change in course["states"]):
        keys.append(Key("outage", "a replica is missing", "area"))
    return chart, edges, keys


def _outages(course: Json, end: float) -> list[tuple[float, float]]:
    """From when to when a replica was not up."""
    found: list[tuple[float, float]] = []
    since: dict[int, float] = {}
    for change in course["states"]:
        if change["state"] == "up":
            if change["replica"] in since:
                found.append((since.pop(change["replica"]), change["time"]))
        else:
            since.setdefault(change["replica"], change["time"])
    return found + [(start, end) for start in since.values()]


def _levels(
    course: Json,
    identity: str,
    title: str,
    mean: Sequence[float],
    most: Sequence[float],
    *,
    shares: bool = False,
) -> Figure:
    chart, edges, keys = _time_chart(course, max(most), shares=shares)
    chart.steps(edges, most, "most")
    chart.area(edges, mean, "mean")
    chart.steps(edges, mean, "mean")
    text = share if shares else number
    said = f"{title}: at most {text(max(most))}, {text(sum(mean) / len(mean))} on average over the run."
    return Figure(title, chart.svg(f"time-{identity}", title, said), (MOST, MEAN, *keys))


def _flows(course: Json) -> Figure:
    timeline = course["timeline"]
    arrivals, completions = timeline["arrivals"], timeline["completions"]
    chart, edges, keys = _time_chart(course, max(*arrivals, *completions))
    chart.steps(edges, arrivals, "arrivals")
    chart.steps(edges, completions, "completions")
    said = f"Up to {number(max(arrivals))} requests a second arrive and up to {number(max(completions))} end."
    title = "Arrivals and completions, requests/s"
    named = (Key("arrivals", "arrive"), Key("completions", "completed"))
    return Figure(title, chart.svg("time-flows", title, said), (*named, *keys))


def _distribution(course: Json, metric: str, limits: dict[str, float]) -> Figure | None:
    values = [math.inf if value is None else 1000 * value for value in course["distributions"][metric]]
    shares = [percent / 100 for percent in course["percentiles"]]
    scale = logarithmic([*values, *(1000 * limit for limit in limits.values())], *X_SPAN)
    if scale is None or not any(math.isfinite(value) for value in values):
        return None
    chart = Chart(scale, linear(0.0, 1.02, *Y_SPAN), f"{metric.upper()}, ms (log scale)", y_text=share)
    for limit in limits.values():
        chart.upright(1000 * limit, "limit")
    for name in limits:
        chart.level(float(name[1:]) / 100, "limit")
    points = [(value, part) for value, part in zip(values, shares, strict=True) if math.isfinite(value)]
    chart.line(points, "distribution")
    found = {part: value for value, part in points}
    named = [(name, part, found[part]) for name, part in NAMED if part in found]
    for _, part, value in named:
        chart.mark(value, part, "distribution")
    said = ", ".join(f"{name} {duration(value / 1000)}" for name, _, value in named)
    keys = [Key("distribution", f"share of requests not slower; {said}")]
    keys += [Key("limit", f"gate: {name} at most {duration(limit)}") for name, limit in limits.items()]
    title = f"{metric.upper()} of users, cumulative"
    return Figure(title, chart.svg(f"distribution-{metric}", title, f"{said}."), tuple(keys))
