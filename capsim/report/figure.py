"""The knee of one replica as a picture: goodput, attainment and latency against the offered rate."""

from __future__ import annotations

import math
import textwrap
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, PercentFormatter

from capsim.report import Json
from capsim.report.knee import Knee, latency_limits
from capsim.report.named import named
from capsim.report.number import duration, number, share

DPI = 150
WIDTH, HEIGHT = 11.0, 9.5
"""Inches of a figure with two latency panels."""
PANEL = 2.2
"""Inches of each further latency panel."""
BLUE, ORANGE, GREEN, YELLOW, PURPLE = "#0072B2", "#D55E00", "#009E73", "#E69F00", "#CC79A7"
"""Okabe and Ito's colours, which the colour-blind can tell apart; markers and lines differ too, for print in grey."""
STYLES = {"p50": (BLUE, "-", "o"), "p95": (ORANGE, "--", "s"), "p99": ("0.2", ":", "^")}
"""Colour, line and marker of a percentile."""
OTHER = (GREEN, "--", "D")
"""Of a percentile that only a gate asks for."""
LIMIT = "-."
"""Line of whatever a gate asks for."""
BOX = {"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 1.5}
"""Behind words, so that no line crosses them."""
FEW_DECADES = 2
"""Up to so many, a logarithmic axis names 2 and 5 beside the powers of ten."""
LOGARITHMIC_BELOW = 0.15
"""Share of the axis below which the operating point is squashed to the left, so that the axis turns logarithmic."""


def knee_figure(result: Json, path: Path) -> None:
    """Write the knee as a PNG; the same plan gives the same bytes.

    Args:
        result: as `capsim.plan.plan_result.plan_result` gives it.
        path: of the file.
    """
    draw_knee(result).savefig(path, format="png", dpi=DPI, metadata={"Software": None})


def draw_knee(result: Json) -> Figure:
    """Goodput, attainment, TTFT and TPOT of one replica against the offered rate, and other metrics that are gated."""
    knee = Knee(result)
    metrics = ["ttft", "tpot", *(metric for metric in ("itl", "e2e") if latency_limits(knee.gates, metric))]
    size = (WIDTH, HEIGHT + PANEL * (len(metrics) - 2))
    figure = Figure(figsize=size, layout=ConstrainedLayoutEngine(h_pad=0.06, w_pad=0.08))
    FigureCanvasAgg(figure)
    heights = [3.2, 1.6] + [PANEL] * len(metrics)
    panels = figure.subplots(len(heights), 1, sharex=True, gridspec_kw={"height_ratios": heights})
    _rate_axis(panels[-1], knee)
    _goodput(panels[0], knee)
    _attainment(panels[1], knee)
    for panel, metric in zip(panels[2:], metrics, strict=True):
        _latency(panel, metric, knee)
    for panel in panels:
        _landmarks(panel, knee)
        panel.grid(visible=True, color="0.9", linewidth=0.6)
        panel.set_axisbelow(True)
    _names(panels[0], knee)
    for panel in panels:
        panel.legend(
            loc="upper left", bbox_to_anchor=(1.01, 1.02), borderaxespad=0, frameon=False, fontsize=9
        )
    figure.align_ylabels(panels)
    figure.suptitle(_title(result), fontsize=12)
    return figure


def _title(result: Json) -> str:
    configuration, cost = result["configuration"], result["confidence"]["step_cost"]
    gpus = configuration["engine"]["tensor_parallel_size"]
    measured = "" if cost["source"] == "measured" else ", no step was measured"
    return (
        f"{result['scenario']}: one replica of {result['comparable']['model']} "
        f"on {gpus} x {named(configuration, 'gpu')}\n"
        f"{result['comparable']['engine']}, step cost {cost['source']}{measured}"
    )


def _rate_axis(panel: Axes, knee: Knee) -> None:
    if knee.rate < LOGARITHMIC_BELOW * knee.rates[-1]:
        panel.set_xscale("log")
        panel.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        panel.xaxis.set_major_formatter(FuncFormatter(_plain))
        panel.xaxis.set_minor_formatter(NullFormatter())
        panel.set_xlim(knee.rates[0] / 1.1, knee.rates[-1] * 1.1)
    else:
        panel.set_xlim(0, knee.rates[-1] * 1.03)
    panel.set_xlabel("offered rate, requests/s per replica")


def _goodput(panel: Axes, knee: Knee) -> None:
    low, mean, high = knee.band("goodput", scale=1 / knee.replicas)
    completed = knee.figures("throughput", scale=1 / knee.replicas)
    top = 1.15 * max(value for value in [knee.goodput, *high, *completed] if math.isfinite(value))
    left, right = panel.get_xlim()
    diagonal = [left + (right - left) * i / 200 for i in range(201)]
    panel.plot(diagonal, diagonal, color="0.6", linewidth=1.2, linestyle=":", label="served = offered")
    panel.plot(
        knee.rates, completed, color="0.45", linewidth=1.2, linestyle="--", label="completed, however late"
    )
    panel.fill_between(knee.rates, low, high, color=BLUE, alpha=0.2, linewidth=0)
    name = "goodput: inside every gate\n(band: least to most of the runs)"
    panel.plot(knee.rates, mean, color=BLUE, marker="o", markersize=4.5, label=name)
    panel.set_ylim(0, top)
    panel.set_ylabel("goodput,\nrequests/s per replica")


def _attainment(panel: Axes, knee: Knee) -> None:
    low, mean, high = knee.band("attainment")
    panel.fill_between(knee.rates, low, high, color=GREEN, alpha=0.2, linewidth=0)
    panel.plot(knee.rates, mean, color=GREEN, marker="D", markersize=4, label="inside every latency gate")
    for required, gates in knee.required.items():
        name = textwrap.fill(f"{', '.join(gates)} need {share(required)}", 34)
        panel.axhline(required, color="black", linewidth=1, linestyle=LIMIT, label=name)
    panel.set_ylim(0, 1.06)
    panel.yaxis.set_major_formatter(PercentFormatter(1))
    panel.set_ylabel("attainment,\n% of requests")


def _latency(panel: Axes, metric: str, knee: Knee) -> None:
    """Percentiles of one metric with their bands and limits; an infinite one is marked on the upper edge."""
    shown: list[float] = []
    for name, (colour, line, marker) in STYLES.items():
        low, mean, high = knee.band(metric, name, scale=1000)
        panel.fill_between(knee.rates, low, high, color=colour, alpha=0.18, linewidth=0)
        panel.plot(knee.rates, mean, color=colour, linestyle=line, marker=marker, markersize=4.5, label=name)
        shown += [*low, *high]
    for name, limit in latency_limits(knee.gates, metric).items():
        colour, line, marker = STYLES.get(name, OTHER)
        if name not in STYLES:
            observed = knee.observed(f"{metric} {name}", scale=1000)
            panel.plot(
                knee.rates, observed, color=colour, linestyle=line, marker=marker, markersize=4.5, label=name
            )
            shown += observed
        said = f"limit of {name}: {duration(limit)}"
        panel.axhline(1000 * limit, color=colour, linewidth=1.6, linestyle=LIMIT, label=said)
        shown.append(1000 * limit)
    logarithmic(panel, [value for value in shown if value > 0])
    endless = knee.infinite(metric)
    if endless:
        edge = panel.get_xaxis_transform()
        panel.plot(
            endless,
            [0.96] * len(endless),
            "kX",
            markersize=6,
            transform=edge,
            label="p99 infinite:\nrequests failed",
        )
    panel.set_ylabel(f"{metric.upper()}, ms\n(log scale)")


def logarithmic(panel: Axes, shown: list[float]) -> None:
    """Scale the axis to these figures."""
    if not shown:
        panel.set_yticks([])
        centre = panel.transAxes
        panel.text(
            0.5, 0.5, "no finite figure at any rate", transform=centre, ha="center", va="center", bbox=BOX
        )
        return
    low, high = min(shown) / 1.3, max(shown) * 1.6
    few = math.log10(high / low) <= FEW_DECADES
    panel.set_yscale("log")
    panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if few else (1,)))
    panel.yaxis.set_major_formatter(FuncFormatter(_plain))
    panel.yaxis.set_minor_formatter(NullFormatter())
    panel.set_ylim(low, high)


def _landmarks(panel: Axes, knee: Knee) -> None:
    """Operating point, knee bracket, overload, and the bound by hand where it is on the axis."""
    right = panel.get_xlim()[1]
    panel.axvspan(knee.rate, knee.not_passing, color=YELLOW, alpha=0.45, linewidth=0)
    panel.axvline(knee.rate, color="black", linewidth=1.4)
    if knee.overloaded < right:
        panel.axvspan(
            knee.overloaded, right, facecolor="0.93", edgecolor="0.75", hatch="///", linewidth=0, zorder=0
        )
        panel.axvline(knee.overloaded, color="0.5", linewidth=1)
    if knee.bound < right:
        panel.axvline(knee.bound, color=PURPLE, linewidth=1.6, linestyle=(0, (3, 1, 1, 1)))


def _names(panel: Axes, knee: Knee) -> None:
    """What the landmarks are: on the head of the upper panel, which the curves leave free, and in its legend."""
    right = panel.get_xlim()[1]
    said = f"operating point: {number(knee.goodput)} requests/s\ninside every gate at {number(knee.rate)} offered"
    panel.plot(
        [knee.rate], [knee.goodput], "k*", markersize=14, markeredgecolor="white", zorder=5, label=said
    )
    place = (panel.transScale + panel.transLimits).transform((knee.rate, knee.goodput))[0]
    panel.annotate(
        f"operating point {number(knee.rate)}/s",
        (knee.rate, 0.965),
        xycoords=panel.get_xaxis_transform(),
        xytext=(6 if place < 0.3 else -6, 0),
        textcoords="offset points",
        ha="left" if place < 0.3 else "right",
        va="top",
        fontsize=9,
        bbox=BOX,
    )
    said = f"knee bracket: {knee.verdict} from {number(knee.not_passing)}"
    panel.fill([], [], color=YELLOW, alpha=0.45, label=said)
    if knee.overloaded < right:
        said = f"overloaded from {number(knee.overloaded)}: latency\ndepends on the run's length"
        panel.fill([], [], facecolor="0.93", edgecolor="0.6", hatch="///", linewidth=0, label=said)
        panel.annotate(
            "overloaded",
            (knee.overloaded, 0.5),
            xycoords=panel.get_xaxis_transform(),
            xytext=(5, 0),
            textcoords="offset points",
            rotation=90,
            va="center",
            fontsize=9,
            bbox=BOX,
        )
    said = f"bound by hand: {number(knee.bound)} ({knee.limit})"
    if knee.bound < right:
        panel.plot([], [], color=PURPLE, linewidth=1.6, linestyle=(0, (3, 1, 1, 1)), label=said)
    else:
        panel.plot([], [], linestyle="", label=f"{said},\noff the axis")


def _plain(value: float, _: int | None = None) -> str:
    return number(value)
