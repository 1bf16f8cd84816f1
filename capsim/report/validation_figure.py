"""Measured and simulated runs laid over one another: distributions of each run, percentiles against load."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import PercentFormatter

from capsim.report import Json
from capsim.report.figure import DPI, STYLES
from capsim.report.validation import LATENCIES, shortened, standing

WIDTH, HEIGHT = 3.0, 2.3
"""Inches of a panel."""
MOST_RUNS = 12
"""Rows of distributions; of more runs, those evenly spread over the loads."""
LINES = {"measured": "-", "simulated": "--"}
DISTRIBUTION_COLOUR = "0.2"
"""None of the percentiles' colours, which mean something else in the panels above."""
"""Colour and line, after Okabe and Ito."""
PERCENTILES = ("p50", "p95")


def overlay_figure(result: Json, path: Path) -> None:
    """Write the overlay as a PNG; the same result gives the same bytes.

    Args:
        result: as `capsim.plan.validation_result.validation_result` gives it.
        path: of the file.
    """
    draw_overlay(result).savefig(path, format="png", dpi=DPI, metadata={"Software": None})


def draw_overlay(result: Json) -> Figure:
    """One row of panels for percentiles against load, one a run for its distributions; a column a metric."""
    runs = sorted((run for run in result["runs"] if run["metrics"]), key=_load)
    metrics = [metric for metric in LATENCIES if any(metric in run["metrics"] for run in runs)]
    shown = _spread(runs, MOST_RUNS)
    rows, columns = len(shown) + 1, max(1, len(metrics))
    size = (WIDTH * columns + 0.6, HEIGHT * rows + 0.6)
    figure = Figure(figsize=size, layout=ConstrainedLayoutEngine(h_pad=0.05, w_pad=0.05))
    FigureCanvasAgg(figure)
    panels = figure.subplots(rows, columns, squeeze=False)
    if not metrics:
        panels[0][0].set_axis_off()
        panels[0][0].text(0.5, 0.5, "no run could be checked", ha="center", va="center")
    for column, metric in enumerate(metrics):
        _against_load(panels[0][column], runs, metric)
        for row, run in enumerate(shown, start=1):
            _distribution(panels[row][column], run, metric)
    for row, run in enumerate(shown, start=1):
        word = standing(run)
        panels[row][0].set_ylabel(f"{shortened(run['name'])}{f' {word}' if word else ''}\nshare", fontsize=8)
    for panel in panels.flat:
        panel.tick_params(labelsize=8)
        panel.grid(visible=True, color="0.9", linewidth=0.6)
        panel.set_axisbelow(True)
    if metrics:
        panels[0][0].legend(fontsize=7, frameon=False)
    hollow = "" if all(run["counts"] for run in runs) else "; hollow: shown, not judged"
    title = f"{result['scenario']}: measured (solid) and simulated (dashed){hollow}"
    figure.suptitle(title, fontsize=11)
    return figure


def _load(run: Json) -> float:
    return float(run["load"]["measured_rate"] or 0.0)


def _spread(runs: Sequence[Json], most: int) -> list[Json]:
    if len(runs) <= most:
        return list(runs)
    return [runs[i] for i in np.linspace(0, len(runs) - 1, most).round().astype(int).tolist()]


def _against_load(panel: Axes, runs: Sequence[Json], metric: str) -> None:
    """Percentiles of every run; hollow where a run is shown and not judged."""
    known = [run for run in runs if metric in run["metrics"]]
    rates = [_load(run) for run in known]
    for name in PERCENTILES:
        colour, _, marker = STYLES[name]
        for which, line in LINES.items():
            values = [1000 * run["metrics"][metric][name][which] for run in known]
            panel.plot(rates, values, color=colour, linestyle=line, linewidth=1.2, label=f"{name} {which}")
            for rate, value, run in zip(rates, values, known, strict=True):
                face = colour if run["counts"] else "white"
                panel.plot([rate], [value], marker, color=colour, markerfacecolor=face, markersize=4.5)
    panel.set_ylim(bottom=0)
    panel.set_title(f"{metric.upper()}, ms", fontsize=9)
    panel.set_xlabel("answered requests/s", fontsize=8)


def _distribution(panel: Axes, run: Json, metric: str) -> None:
    """Both distributions of one run, up to the p99 and a little."""
    curves = run["curves"].get(metric)
    if curves is None:
        panel.set_axis_off()
        panel.text(0.5, 0.5, "not checked", ha="center", va="center", fontsize=8)
        return
    right = 0.0
    for which, line in LINES.items():
        values = [1000 * value for value in curves[which]]
        shares = np.linspace(0, 1, len(values))
        panel.plot(values, shares, color=DISTRIBUTION_COLOUR, linestyle=line, linewidth=1.3)
        right = max(right, values[-2])
    panel.set_xlim(0, 1.1 * right or 1.0)
    panel.set_ylim(0, 1)
    panel.yaxis.set_major_formatter(PercentFormatter(1))
    panel.set_xlabel(f"{metric.upper()}, ms", fontsize=8)
