"""The sweep of one replica as charts: goodput, attainment, TTFT and TPOT against the offered rate, with verdicts."""

from __future__ import annotations

import math
from collections.abc import Sequence

from capsim.report import Json
from capsim.report.knee import Knee, latency_limits
from capsim.report.number import duration, number, share
from capsim.report.page.block import Figure, Key
from capsim.report.page.chart import X_SPAN, Y_SPAN, Chart
from capsim.report.page.scale import Scale, linear, logarithmic

RATE = "offered, requests/s a replica"
PERCENTILES = ("p50", "p95", "p99")
LOGARITHMIC_BELOW = 0.15
"""Share of the axis below which the operating point is squashed to the left, so that the axis turns logarithmic."""
STANDING = (
    Key("point", "operating point", "line"),
    Key("bracket", "knee bracket", "area"),
    Key("overload", "overloaded", "area"),
)


def knee_charts(result: Json) -> tuple[Figure, ...]:
    """Charts of the sweep.

    Args:
        result: as `capsim.plan.plan_result.plan_result` gives it.
    """
    knee = Knee(result)
    verdicts = ["overloaded" if point["overloaded"] else point["verdict"] for point in result["sweep"]]
    metrics = ["ttft", "tpot", *(metric for metric in ("itl", "e2e") if latency_limits(knee.gates, metric))]
    return (
        _goodput(knee, verdicts),
        _attainment(knee, verdicts),
        *(figure for metric in metrics if (figure := _latency(knee, metric)) is not None),
    )


def _rates(knee: Knee) -> Scale:
    if knee.rate < LOGARITHMIC_BELOW * knee.rates[-1]:
        return Scale(knee.rates[0] / 1.1, knee.rates[-1] * 1.1, *X_SPAN, logarithmic=True)
    return linear(0.0, knee.rates[-1] * 1.04, *X_SPAN)


def _chart(knee: Knee, y: Scale, name: str = "") -> Chart:
    """A chart with the landmarks below what will be drawn."""
    text = share if name == "share" else number
    chart = Chart(_rates(knee), y, RATE, y_text=text)
    chart.strip(knee.overloaded, math.inf, "overload")
    chart.strip(knee.rate, knee.not_passing, "bracket")
    chart.upright(knee.rate, "point")
    return chart


def _goodput(knee: Knee, verdicts: Sequence[str]) -> Figure:
    low, mean, high = knee.band("goodput", scale=1 / knee.replicas)
    completed = knee.figures("throughput", scale=1 / knee.replicas)
    top = 1.12 * max(value for value in [knee.goodput, *high, *completed] if math.isfinite(value))
    chart = _chart(knee, linear(0.0, top, *Y_SPAN))
    x = knee.rates
    chart.line([(edge, edge) for edge in (chart.x.low, min(top, chart.x.high))], "offered")
    chart.line(list(zip(x, completed, strict=True)), "completed")
    chart.band(list(zip(x, low, strict=True)), list(zip(x, high, strict=True)), "goodput")
    chart.line(list(zip(x, mean, strict=True)), "goodput")
    for place, value, verdict in zip(x, mean, verdicts, strict=True):
        chart.mark(place, value, f"goodput {verdict}")
    chart.label(knee.rate, top * 0.04, number(knee.rate), anchor="end")
    said = (
        f"Goodput follows what is offered up to the operating point at {number(knee.rate)} requests/s, where it is "
        f"{number(knee.goodput)}."
    )
    keys = (
        Key("goodput", "inside every gate; band: least to most of the runs"),
        Key("completed", "completed, however late"),
        Key("offered", "offered"),
        *STANDING,
        Key("pass", "pass", "mark"),
        Key("undecided", "undecided", "mark"),
        Key("fail", "fail", "cross"),
    )
    return Figure("Goodput, requests/s a replica", chart.svg("knee-goodput", "Goodput", said), keys)


def _attainment(knee: Knee, verdicts: Sequence[str]) -> Figure:
    low, mean, high = knee.band("attainment")
    chart = _chart(knee, linear(0.0, 1.05, *Y_SPAN), "share")
    x = knee.rates
    chart.band(list(zip(x, low, strict=True)), list(zip(x, high, strict=True)), "attainment")
    chart.line(list(zip(x, mean, strict=True)), "attainment")
    for place, value, verdict in zip(x, mean, verdicts, strict=True):
        chart.mark(place, value, f"attainment {verdict}")
    keys = [Key("attainment", "inside every latency gate")]
    for required, gates in knee.required.items():
        chart.level(required, "limit")
        keys.append(Key("limit", f"{', '.join(gates)} need {share(required)}"))
    said = f"Share of the requests inside every latency gate, from {share(mean[0])} to {share(mean[-1])}."
    return Figure(
        "Attainment, share of requests", chart.svg("knee-attainment", "Attainment", said), tuple(keys)
    )


def _latency(knee: Knee, metric: str) -> Figure | None:
    """Percentiles of a metric with the limits that gates set; None where none is finite at any rate."""
    limits = {name: 1000 * limit for name, limit in latency_limits(knee.gates, metric).items()}
    bands = {name: knee.band(metric, name, scale=1000) for name in PERCENTILES}
    gated = {
        name: knee.observed(f"{metric} {name}", scale=1000) for name in limits if name not in PERCENTILES
    }
    shown = [value for band in bands.values() for values in band for value in values]
    shown += [value for values in gated.values() for value in values] + list(limits.values())
    scale = logarithmic(shown, *Y_SPAN)
    if scale is None:
        return None
    chart = _chart(knee, scale)
    for name, (low, mean, high) in bands.items():
        chart.band(list(zip(knee.rates, low, strict=True)), list(zip(knee.rates, high, strict=True)), name)
        chart.line(list(zip(knee.rates, mean, strict=True)), name)
    for observed in gated.values():
        chart.line(list(zip(knee.rates, observed, strict=True)), "gated")
    for name, limit in limits.items():
        chart.level(limit, f"limit {name}")
    keys = [Key(name, name) for name in reversed(PERCENTILES)] + [Key("gated", name) for name in gated]
    keys += [
        Key(f"limit {name}", f"limit of {name}: {duration(limit / 1000)}") for name, limit in limits.items()
    ]
    for rate in knee.infinite(metric):
        chart.mark(rate, chart.y.high, "infinite fail")
    if knee.infinite(metric):
        keys.append(Key("fail", "p99 infinite: requests failed", "cross"))
    said = f"{metric.upper()} p50, p95 and p99 against the offered rate, on a logarithmic axis."
    title = f"{metric.upper()}, ms (log scale)"
    return Figure(title, chart.svg(f"knee-{metric}", metric.upper(), said), tuple(keys))
