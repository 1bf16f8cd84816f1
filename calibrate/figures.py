"""A profile as pictures: what the GPU reaches, and where the roofline differs from the measurement."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, PercentFormatter

from calibrate.intensity import Point, ceilings, decode_points, gemm_points, has_kernels, prefill_points
from calibrate.regime import KINDS, kind_of, tokens_of

if TYPE_CHECKING:
    from calibrate.show import Shown

DPI = 150
BLUE, ORANGE, GREEN = "#0072B2", "#D55E00", "#009E73"
"""Okabe and Ito's colours, which the colour-blind can tell apart; markers and fills differ too, for print in grey."""
STYLES = {
    "prefill": (BLUE, "o"),
    "decode": (ORANGE, "s"),
    "mixed": (GREEN, "^"),
}
"""Colour and marker of a regime; large steps are filled, small ones are open."""
BANDS = (0.1, 0.25)
"""Relative differences that are shaded."""
CLEAR = 0.2
"""Decades between points that are both named."""
FEW_DECADES = 2.5
"""Up to so many, a logarithmic axis names 2 and 5 beside the powers of ten."""


def write_figures(shown: Shown, folder: Path) -> list[Path]:
    """Write the figures that the profile allows as PNG, and return their paths; the same profile gives the same bytes.

    Args:
        shown: a profile beside the roofline; without one there is nothing to compare with, and no figure.
        folder: that exists.
    """
    if shown.roofline is None:
        return []
    drawn: dict[str, Callable[[Shown], Figure]] = {
        "roofline.png": draw_roofline,
        "parity.png": draw_parity,
        "residuals.png": draw_residuals,
    }
    paths = []
    for name, draw in drawn.items():
        draw(shown).savefig(folder / name, format="png", dpi=DPI, metadata={"Software": None})
        paths.append(folder / name)
    return paths


def draw_roofline(shown: Shown) -> Figure:
    """Achieved FLOP/s against arithmetic intensity, below the data sheet's and the stated efficiencies' ceilings."""
    figure, panel = _figure(9.5, 6.2)
    series = {gemm_points(shown): (BLUE, "o", "-")}
    if has_kernels(shown):  # attention that was fitted to whole steps is a difference, and no kernel's time
        series |= {prefill_points(shown): (GREEN, "^", "--"), decode_points(shown): (ORANGE, "s", ":")}
    known = {points: style for points, style in series.items() if points.points}
    everywhere = [point for points in known for point in points.points]
    low = min((point.intensity for point in everywhere), default=1.0) / 2
    high = max((point.intensity for point in everywhere), default=1e3) * 2
    intensity = np.geomspace(low, high, 200)
    for ceiling in ceilings(shown):
        flops = np.minimum(ceiling.bandwidth * intensity, ceiling.flops) / 1e12
        panel.plot(
            intensity, flops, color=ceiling.grey, linestyle=ceiling.line, linewidth=1.3, label=ceiling.name
        )
    named: list[Point] = []
    # The short series are named first: the long one has room elsewhere.
    for points, (colour, marker, line) in reversed(known.items()):
        x = [point.intensity for point in points.points]
        y = [point.flops / 1e12 for point in points.points]
        panel.plot(
            x, y, color=colour, marker=marker, markersize=5, linestyle=line, linewidth=1, label=points.name
        )
        _name_some(panel, points.points, colour, named)
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.set_xlabel("arithmetic intensity, FLOP per byte of memory traffic")
    panel.set_ylabel("achieved, TFLOP/s per GPU")
    _plain(panel)
    panel.legend(loc="upper left", bbox_to_anchor=(0.0, -0.12), ncols=2, frameon=False, fontsize=8.5)
    panel.set_title(_title(shown, "what the kernels reach"), fontsize=11)
    return figure


def draw_parity(shown: Shown) -> Figure:
    """Seconds of a step by the roofline against those by the profile."""
    figure, panel = _figure(7.2, 6.6)
    tables, lines = 1e3 * np.array(shown.tables), 1e3 * np.array(shown.lines)
    low, high = min(tables.min(), lines.min()) / 1.2, max(tables.max(), lines.max()) * 1.2
    diagonal = np.array([low, high])
    for share, grey in zip(BANDS, ("0.8", "0.9"), strict=True):
        panel.fill_between(
            diagonal,
            (1 - share) * diagonal,
            (1 + share) * diagonal,
            color=grey,
            linewidth=0,
            zorder=-share,
            label=f"within {100 * share:.0f} %",
        )
    panel.plot(diagonal, diagonal, color="black", linewidth=1, label="equal")
    _scatter(panel, shown, tables, lines)
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.set_xlim(low, high)
    panel.set_ylim(low, high)
    panel.set_aspect("equal")
    panel.set_xlabel("step by the profile, ms, without the host")
    panel.set_ylabel("step by the roofline, ms, without the host")
    _plain(panel)
    panel.legend(loc="upper left", frameon=False, fontsize=8.5)
    panel.set_title(_title(shown, "roofline against profile"), fontsize=11)
    return figure


def draw_residuals(shown: Shown) -> Figure:
    """By how much the roofline is off, against the size of the step."""
    figure, panel = _figure(9.5, 5.2)
    tokens = np.array([tokens_of(batch) for batch in shown.batches], dtype=float)
    errors = np.array(shown.lines) / np.array(shown.tables) - 1
    for share, grey in zip(BANDS, ("0.8", "0.9"), strict=True):
        panel.axhspan(
            -share, share, color=grey, linewidth=0, zorder=-share, label=f"within {100 * share:.0f} %"
        )
    panel.axhline(0, color="black", linewidth=1)
    _scatter(panel, shown, tokens, errors)
    panel.set_xscale("log")
    panel.set_xlabel("tokens that the step computes")
    panel.set_ylabel("roofline / profile - 1")
    panel.yaxis.set_major_formatter(PercentFormatter(1))
    panel.xaxis.set_major_formatter(FuncFormatter(_number))
    panel.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False, fontsize=8.5)
    panel.set_title(_title(shown, "error of the roofline, below 0: too fast"), fontsize=11)
    panel.grid(visible=True, color="0.85", linewidth=0.6)
    panel.set_axisbelow(True)
    return figure


def _figure(width: float, height: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots()


def _title(shown: Shown, what: str) -> str:
    stated = shown.profile.provenance
    experts = " with whole experts" if stated.expert_parallel else ""
    return (
        f"{what}\n{stated.model}, {stated.dtype}, on {stated.tensor_parallel_size} x {stated.gpu}{experts}, "
        f"{stated.engine} {stated.engine_version}"
    )


def _scatter(panel: Axes, shown: Shown, x: np.ndarray, y: np.ndarray) -> None:
    kinds = [kind_of(batch) for batch in shown.batches]
    for kind in KINDS:
        chosen = np.array([each == kind for each in kinds])
        if chosen.any():
            colour, marker = STYLES[kind.regime]
            panel.plot(
                x[chosen],
                y[chosen],
                linestyle="",
                marker=marker,
                markersize=5,
                color=colour,
                markerfacecolor=colour if kind.size == "large" else "white",
                label=f"{kind.regime}, {kind.size}",
            )


def _name_some(panel: Axes, points: Sequence[Point], colour: str, named: list[Point]) -> None:
    """Names of the points that stand clear of all those named before, from the largest down."""
    for point in reversed(points):
        if all(_apart(point, other) > CLEAR for other in named):
            named.append(point)
            panel.annotate(
                point.name,
                (point.intensity, point.flops / 1e12),
                xytext=(7, -3),
                textcoords="offset points",
                fontsize=7.5,
                color=colour,
                va="top",
            )


def _apart(one: Point, other: Point) -> float:
    """Decades between two points, those of the axis that is drawn smaller counted half."""
    return math.hypot(math.log10(one.intensity / other.intensity), math.log10(one.flops / other.flops) / 2)


def _plain(panel: Axes) -> None:
    panel.grid(visible=True, color="0.88", linewidth=0.6)
    panel.set_axisbelow(True)
    for axis in (panel.xaxis, panel.yaxis):
        low, high = sorted(axis.get_view_interval())
        few = high / low < 10**FEW_DECADES
        axis.set_major_locator(LogLocator(subs=(1, 2, 5) if few else (1,)))
        axis.set_major_formatter(FuncFormatter(_number))
        axis.set_minor_formatter(NullFormatter())


def _number(value: float, _: int | None = None) -> str:
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"
