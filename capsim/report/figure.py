"""The knee of one replica as a picture: goodput, attainment and latency against the offered rate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, PercentFormatter

from capsim.report import Json
from capsim.report.number import duration, number, share

DPI = 150
WIDTH, HEIGHT = 11.0, 9.5
"""Inches of a figure with two latency panels."""
PANEL = 2.2
"""Inches of each further latency panel."""
STYLES = {
    "p50": ("#0072B2", "-", "o"),
    "p95": ("#D55E00", "--", "s"),
    "p99": ("#3A3A3A", ":", "^"),
    "": ("#117733", "-.", "D"),
}
"""Colour (of Okabe and Ito's set for the colour-blind), line and marker of a percentile; the last is of any other."""
FEW_DECADES = 2
"""Up to so many, a logarithmic axis names 2 and 5 beside the powers of ten."""
LOGARITHMIC_BELOW = 0.15
"""Share of the axis below which an operating point would be squashed to its left, so that the axis turns logarithmic."""


def knee_figure(result: Json, path: Path) -> None:
    """Write the knee as a PNG; the same plan gives the same bytes.

    Args:
        result: as `capsim.plan.result.plan_result` gives it.
        path: of the file.
    """
    draw_knee(result).savefig(path, format="png", dpi=DPI, metadata={"Software": None})


def draw_knee(result: Json) -> Figure:
    """Goodput, attainment, TTFT and TPOT of one replica against the offered rate, and any other metric that is gated."""
    gates = result["operating_point"]["gates"]
    metrics = ["ttft", "tpot", *(metric for metric in ("itl", "e2e") if _gates_of(metric, gates))]
    figure = Figure(figsize=(WIDTH, HEIGHT + PANEL * (len(metrics) - 2)), layout="constrained")
    FigureCanvasAgg(figure)
    figure.get_layout_engine().set(h_pad=0.06, w_pad=0.08)  # type: ignore[union-attr]
    heights = [3.0, 1.6] + [2.2] * len(metrics)
    panels = figure.subplots(len(heights), 1, sharex=True, gridspec_kw={"height_ratios": heights})
    goodput, attainment, *latencies = panels
    _rate_axis(panels, result)
    _goodput(goodput, result)
    _attainment(attainment, result)
    for panel, metric in zip(latencies, metrics, strict=True):
        _latency(panel, metric, result)
    for panel in panels:
        _landmarks(panel, result)
    _labels(goodput, result)
    for panel in panels:
        panel.legend(
            loc="upper left", bbox_to_anchor=(1.01, 1.02), borderaxespad=0, frameon=False, fontsize=9
        )
    figure.suptitle(_title(result), fontsize=12)
    return figure


def _title(result: Json) -> str:
    configuration, cost = result["configuration"], result["confidence"]["step_cost"]
    gpus = configuration["engine"]["tensor_parallel_size"]
    measured = "" if cost["source"] == "measured" else ", no step was measured"
    return (
        f"{result['scenario']}: one replica of {result['comparable']['model']} on {gpus} x {configuration['gpu']}\n"
        f"{result['comparable']['engine']}, step cost {cost['source']}{measured}"
    )


def _rate_axis(panels: Sequence[Axes], result: Json) -> None:
    rates = _rates(result)
    bottom = panels[-1]
    if result["operating_point"]["rate"] < LOGARITHMIC_BELOW * max(rates):
        bottom.set_xscale("log")
        bottom.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        bottom.xaxis.set_major_formatter(FuncFormatter(_plain))
        bottom.xaxis.set_minor_formatter(NullFormatter())
        bottom.set_xlim(min(rates) / 1.1, max(rates) * 1.1)
    else:
        bottom.set_xlim(0, max(rates) * 1.03)
    bottom.set_xlabel("offered rate, requests/s per replica")
    for panel in panels:
        panel.grid(visible=True, color="0.9", linewidth=0.6)
        panel.set_axisbelow(True)


def _goodput(panel: Axes, result: Json) -> None:
    rates, point = _rates(result), result["operating_point"]
    low, mean, high = _bands(
        [
            [None if value is None else value / tested["replicas"] for value in tested["goodput"]]
            for tested in result["sweep"]
        ]
    )
    left, right = panel.get_xlim()
    top = 1.3 * max([point["goodput"], *(value for value in high if math.isfinite(value))])
    diagonal = [max(left, top * i / 200) for i in range(201)]
    panel.plot(diagonal, diagonal, color="0.6", linewidth=1, linestyle=(0, (1, 3)), label="offered = served")
    served = [
        math.nan if tested["throughput"] is None else tested["throughput"] / tested["replicas"]
        for tested in result["sweep"]
    ]
    panel.plot(rates, served, color="0.45", linewidth=1, linestyle="--", label="completed, however late")
    panel.fill_between(rates, low, high, color=STYLES["p50"][0], alpha=0.2, linewidth=0)
    panel.plot(
        rates,
        mean,
        color=STYLES["p50"][0],
        marker="o",
        markersize=4.5,
        label="goodput, all gates\n(band: least to most)",
    )
    panel.set_ylim(0, top)
    panel.set_xlim(left, right)
    panel.set_ylabel("goodput,\nrequests/s per replica")


def _attainment(panel: Axes, result: Json) -> None:
    low, mean, high = _bands([point["attainment"] for point in result["sweep"]])
    panel.fill_between(_rates(result), low, high, color="#117733", alpha=0.2, linewidth=0)
    panel.plot(
        _rates(result), mean, color="#117733", marker="D", markersize=4, label="inside every latency gate"
    )
    required = {gate["required"] for gate in result["operating_point"]["gates"] if _is_latency(gate)}
    for needed in sorted(required):
        panel.axhline(
            needed, color="black", linewidth=1, linestyle="-.", label=f"required of a gate: {share(needed)}"
        )
    panel.set_ylim(0, 1.06)
    panel.yaxis.set_major_formatter(PercentFormatter(1))
    panel.set_ylabel("attainment,\n% of requests")


def _latency(panel: Axes, metric: str, result: Json) -> None:
    """Percentiles of one metric with their bands and limits; an infinite one is a triangle on the upper edge."""
    sweep, rates = result["sweep"], _rates(result)
    gates = _gates_of(metric, result["operating_point"]["gates"])
    shown: list[float] = []
    for name in ("p50", "p95", "p99"):
        colour, line, marker = STYLES[name]
        low, mean, high = (
            _milliseconds(values) for values in _bands([point[metric][name] for point in sweep])
        )
        panel.fill_between(rates, low, high, color=colour, alpha=0.18, linewidth=0)
        panel.plot(rates, mean, color=colour, linestyle=line, marker=marker, markersize=4.5, label=name)
        endless = [
            rate
            for rate, point in zip(rates, sweep, strict=True)
            if point[metric][name][0] is None and point["error_rate"]
        ]
        panel.plot(
            endless,
            [0.97] * len(endless),
            color=colour,
            marker="^",
            linestyle="",
            transform=panel.get_xaxis_transform(),
        )
        shown += [*low, *high]
    for name, limit in gates.items():
        colour, _, marker = STYLES.get(name, STYLES[""])
        if name not in STYLES:
            observed = _milliseconds(_observed(f"{metric} {name}", sweep))
            panel.plot(
                rates, observed, color=colour, linestyle="-.", marker=marker, markersize=4.5, label=name
            )
            shown += observed
        panel.axhline(
            1000 * limit,
            color=colour,
            linewidth=1.6,
            linestyle=(0, (7, 2)),
            label=f"limit of {name}: {duration(limit)}",
        )
        shown.append(1000 * limit)
    _logarithmic(panel, [value for value in shown if value > 0])
    panel.set_ylabel(f"{metric.upper()}, ms\n(log scale)")


def _logarithmic(panel: Axes, shown: Sequence[float]) -> None:
    """Scale the axis to these figures; NaN has been left out."""
    if not shown:
        panel.set_yticks([])
        panel.text(
            0.5, 0.5, "no finite figure at any rate", transform=panel.transAxes, ha="center", va="center"
        )
        return
    low, high = min(shown) / 1.3, max(shown) * 1.5
    panel.set_yscale("log")
    few = math.log10(high / low) <= FEW_DECADES
    panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if few else (1,)))
    panel.yaxis.set_major_formatter(FuncFormatter(_plain))
    panel.yaxis.set_minor_formatter(NullFormatter())
    panel.set_ylim(low, high)


def _landmarks(panel: Axes, result: Json) -> None:
    """Operating point, knee bracket, and where the replica is overloaded."""
    low, high = result["operating_point"]["bracket"]
    right = panel.get_xlim()[1]
    panel.axvspan(low, high, color="#E69F00", alpha=0.45, linewidth=0)
    panel.axvline(low, color="black", linewidth=1.4)
    saturated = result["saturated_rate"]["mean"]
    if saturated < right:
        panel.axvspan(
            saturated, right, facecolor="0.93", edgecolor="0.75", hatch="///", linewidth=0, zorder=0
        )
        panel.axvline(saturated, color="0.5", linewidth=1)
    if result["bound"]["rate"] < right:
        panel.axvline(result["bound"]["rate"], color="#CC79A7", linewidth=1.4, linestyle=(0, (3, 1, 1, 1)))


def _labels(panel: Axes, result: Json) -> None:
    """Names of the landmarks, on the upper panel, whose head is kept free of data."""
    point, bound, saturated = result["operating_point"], result["bound"], result["saturated_rate"]["mean"]
    right = panel.get_xlim()[1]
    panel.plot(
        [point["rate"]],
        [point["goodput"]],
        color="black",
        marker="*",
        markersize=14,
        linestyle="",
        label=f"operating point:\n{number(point['goodput'])} requests/s at {number(point['rate'])}",
    )
    verdict = next(tested["verdict"] for tested in result["sweep"] if tested["rate"] == point["bracket"][1])
    panel.fill(
        [],
        [],
        color="#E69F00",
        alpha=0.45,
        label=f"knee bracket: {verdict}\nfrom {number(point['bracket'][1])}",
    )
    box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 1.5}
    place = panel.transData.transform((point["rate"], 0))[0], panel.transAxes.inverted()
    fraction = place[1].transform((place[0], 0))[0]
    side, shift = ("right", -6) if fraction > 0.3 else ("left", 6)
    panel.annotate(
        f"operating point {number(point['rate'])}/s",
        (point["rate"], 0.96),
        xycoords=panel.get_xaxis_transform(),
        xytext=(shift, 0),
        textcoords="offset points",
        ha=side,
        va="top",
        bbox=box,
    )
    if saturated < right:
        panel.fill(
            [],
            [],
            facecolor="0.93",
            edgecolor="0.6",
            hatch="///",
            linewidth=0,
            label=f"overloaded: from {number(saturated)},\nthe saturated rate",
        )
        panel.annotate(
            "overloaded",
            (saturated, 0.96),
            xycoords=panel.get_xaxis_transform(),
            xytext=(6, 0),
            textcoords="offset points",
            ha="left",
            va="top",
            bbox=box,
        )
    name = f"bound by hand: {number(bound['rate'])}\n({bound['limit']})"
    if bound["rate"] < right:
        panel.plot([], [], color="#CC79A7", linewidth=1.4, linestyle=(0, (3, 1, 1, 1)), label=name)
    else:
        panel.plot([], [], linestyle="", label=f"{name}, off the axis")


def _rates(result: Json) -> list[float]:
    return [point["rate_per_replica"] for point in result["sweep"]]


def _bands(bands: Sequence[Sequence[float | None]]) -> tuple[list[float], list[float], list[float]]:
    """Least, mean and most of each point, NaN where there is no figure."""
    columns = [[math.nan if band[i] is None else float(band[i]) for band in bands] for i in (1, 0, 2)]  # type: ignore[arg-type]
    return columns[0], columns[1], columns[2]


def _milliseconds(seconds: Sequence[float]) -> list[float]:
    return [1000 * value for value in seconds]


def _observed(name: str, sweep: Sequence[Json]) -> list[float]:
    """What a gate judged at each point, NaN where it is infinite or does not exist."""
    found = [next(gate["observed"] for gate in point["gates"] if gate["name"] == name) for point in sweep]
    return [math.nan if value is None else float(value) for value in found]


def _gates_of(metric: str, gates: Sequence[Json]) -> dict[str, float]:
    """Limit, seconds, of each percentile of a metric that is gated."""
    named = [(gate["name"].split(), gate["limit"]) for gate in gates if _is_latency(gate)]
    return {percentile: limit for (of, percentile), limit in named if of == metric}


def _is_latency(gate: Json) -> bool:
    return gate["required"] is not None and gate["name"] != "error rate"


def _plain(value: float, _: int | None = None) -> str:
    return number(value)
