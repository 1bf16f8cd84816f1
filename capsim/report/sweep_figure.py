"""A sweep as a picture: goodput, latency and KV cache against what it goes over."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import FixedLocator, NullLocator, PercentFormatter

from capsim.report import Json
from capsim.report.figure import BLUE, DPI, GREEN, LIMIT, ORANGE, PURPLE, STYLES, YELLOW, logarithmic
from capsim.report.knee import latency_limits
from capsim.report.number import duration
from capsim.report.sweep import named, standing

FIGURE = "sweep.png"
WIDTH, PANEL = 10.0, 2.3
"""Inches of the figure, and of each panel's height."""
COLOURS = (BLUE, ORANGE, GREEN, PURPLE, YELLOW, "0.3", "0.6")
"""Of series; more than these begin anew with another line."""
LINES = ("-", "--", ":", "-.")
MARKERS = {"pass": "o", "undecided": "D", "fail": "X", "overloaded": "X"}
WIDE = 20
"""Greatest value over least from which the axis is logarithmic."""
MOST_LABELS = 12
"""Of an axis; of more values every second, third and so on is named."""
_NUMBER = re.compile(r"([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*(.*)")


@dataclass(frozen=True)
class Series:
    """Points that differ by the first axis alone.

    Attributes:
        name: values of the other axes, empty if there is none.
        places: on the horizontal axis.
        points: of the result, those that fit.
    """

    name: str
    places: list[float]
    points: list[Json]

    def figures(self, *keys: str, scale: float = 1.0) -> list[float]:
        """Means of a figure; NaN where it is infinite or does not exist."""
        found = []
        for point in self.points:
            value = point["point"]
            for key in keys:
                value = value[key]
            mean = value[0] if isinstance(value, list) else value
            found.append(math.nan if mean is None else scale * mean)
        return found


class Scale:
    """Where the values of the first axis stand: as numbers where they are such in one unit, else side by side."""

    def __init__(self, values: list[str]) -> None:
        matches = [_NUMBER.fullmatch(value.strip()) for value in values]
        units = {match[2] for match in matches if match}
        self.values = values
        self.numeric = all(matches) and len(units) == 1
        self.places = [float(match[1]) if match and self.numeric else i for i, match in enumerate(matches)]
        self.logarithmic = (
            self.numeric and min(self.places) > 0 and max(self.places) / min(self.places) > WIDE
        )

    def draw(self, panel: Axes, name: str) -> None:
        """Label the axis with the values themselves."""
        if self.logarithmic:
            panel.set_xscale("log")
        apart = math.ceil(len(self.values) / MOST_LABELS)
        panel.xaxis.set_major_locator(FixedLocator(self.places[::apart]))
        panel.xaxis.set_minor_locator(NullLocator())
        panel.set_xticklabels(self.values[::apart], rotation=30 if max(map(len, self.values)) > 8 else 0)
        panel.set_xlabel(name)


def sweep_figure(result: Json, path: Path) -> None:
    """Write the sweep as a PNG; the same sweep gives the same bytes.

    Args:
        result: as `capsim.plan.sweep_result.sweep_result` gives it.
        path: of the file.
    """
    draw_sweep(result).savefig(path, format="png", dpi=DPI, metadata={"Software": None})


def draw_sweep(result: Json) -> Figure:
    """Goodput, TTFT, TPOT, what else is gated, and the KV cache, one above the other."""
    axis = result["over"][0]
    scale = Scale(axis["values"])
    series = _series(result, scale)
    gates = next(point["point"]["gates"] for point in result["points"] if point["point"])
    metrics = ["ttft", "tpot", *(metric for metric in ("itl", "e2e") if latency_limits(gates, metric))]
    figure = Figure(
        figsize=(WIDTH, PANEL * (len(metrics) + 2)), layout=ConstrainedLayoutEngine(h_pad=0.06, w_pad=0.08)
    )
    FigureCanvasAgg(figure)
    panels = figure.subplots(len(metrics) + 2, 1, sharex=True)
    scale.draw(panels[-1], axis["name"])
    _goodput(panels[0], series)
    for panel, metric in zip(panels[1:-1], metrics, strict=True):
        _latency(panel, metric, series, latency_limits(gates, metric))
    _pool(panels[-1], series)
    for panel in panels:
        panel.grid(visible=True, color="0.9", linewidth=0.6)
        panel.set_axisbelow(True)
        panel.legend(
            loc="upper left", bbox_to_anchor=(1.01, 1.02), borderaxespad=0, frameon=False, fontsize=9
        )
    figure.align_ylabels(panels)
    figure.suptitle(f"{result['scenario']}, over {' and '.join(each['name'] for each in result['over'])}")
    return figure


def _series(result: Json, scale: Scale) -> list[Series]:
    """One for each combination of the other axes' values, in their order."""
    first, *others = (axis["name"] for axis in result["over"])
    places = dict(zip(scale.values, scale.places, strict=True))
    grouped: dict[str, list[Json]] = {}
    for point in result["points"]:
        if point["point"]:
            rest = {name: point["values"][name] for name in others}
            grouped.setdefault(named(rest) if rest else "", []).append(point)
    return [
        Series(name, [places[point["values"][first]] for point in points], points)
        for name, points in grouped.items()
    ]


def _styled(series: list[Series]) -> list[tuple[Series, str, str]]:
    count = len(COLOURS)
    return [(each, COLOURS[i % count], LINES[i // count % len(LINES)]) for i, each in enumerate(series)]


def _goodput(panel: Axes, series: list[Series]) -> None:
    """Goodput with a marker a verdict, and what was completed, however late."""
    seen: set[str] = set()
    for each, colour, line in _styled(series):
        goodput, completed = each.figures("goodput"), each.figures("throughput")
        panel.plot(each.places, completed, color=colour, linewidth=1, linestyle=":", alpha=0.6)
        panel.plot(each.places, goodput, color=colour, linestyle=line, label=each.name or "goodput")
        for place, figure, point in zip(each.places, goodput, each.points, strict=True):
            verdict = standing(point)
            filled = colour if verdict == "pass" else "white"
            panel.plot(
                place,
                figure,
                MARKERS[verdict],
                ms=7,
                color=colour,
                markerfacecolor=filled,
                clip_on=False,
                zorder=3,
            )
            seen.add(verdict)
    panel.plot([], [], color="0.4", linewidth=1, linestyle=":", label="completed, however late")
    for verdict, marker in MARKERS.items():
        if verdict in seen:
            filled = "0.3" if verdict == "pass" else "white"
            panel.plot([], [], marker, color="0.3", markerfacecolor=filled, label=verdict)
    panel.set_ylim(bottom=0)
    panel.set_ylabel("goodput,\nrequests/s")


def _latency(panel: Axes, metric: str, series: list[Series], limits: dict[str, float]) -> None:
    """Percentiles of a metric: of one series three, of several p95."""
    shown: list[float] = []
    for each, colour, line in _styled(series):
        styles = STYLES if len(series) == 1 else {"p95": (colour, line, "o")}
        for name, (tint, dash, marker) in styles.items():
            figures = each.figures(metric, name, scale=1000)
            label = name if len(series) == 1 else f"{name}, {each.name}"
            panel.plot(
                each.places, figures, color=tint, linestyle=dash, marker=marker, markersize=4.5, label=label
            )
            shown += figures
    for name, limit in limits.items():
        panel.axhline(1000 * limit, color="0.3", linestyle=LIMIT, label=f"limit of {name}: {duration(limit)}")
        shown.append(1000 * limit)
    logarithmic(panel, [figure for figure in shown if figure > 0])
    panel.set_ylabel(f"{metric.upper()}, ms\n(log scale)")


def _pool(panel: Axes, series: list[Series]) -> None:
    for each, colour, line in _styled(series):
        shares = [math.nan if p["pool_share"] is None else p["pool_share"] for p in each.points]
        panel.plot(
            each.places,
            shares,
            color=colour,
            linestyle=line,
            marker="s",
            markersize=4.5,
            label=each.name or "most held",
        )
    panel.set_ylim(0, 1.05)
    panel.yaxis.set_major_formatter(PercentFormatter(1))
    panel.set_ylabel("KV cache of\na replica")
