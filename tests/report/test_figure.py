from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes

from capsim.report.figure import DPI, HEIGHT, PANEL, WIDTH, draw_knee, knee_figure
from tests.report.results import stored, with_failed_requests, without_latency_gates


def vertical_lines(panel: Axes) -> list[float]:
    """Where lines of one x across the whole panel stand."""
    lines = [np.asarray(line.get_xdata(), dtype=float) for line in panel.get_lines()]
    return [float(x[0]) for x in lines if len(x) == 2 and x[0] == x[1]]


def drawn(panel: Axes, label: str) -> tuple[list[float], list[float]]:
    """Points of the line that the legend names so."""
    line = next(line for line in panel.get_lines() if str(line.get_label()) == label)
    x, y = (np.asarray(data, dtype=float).tolist() for data in (line.get_xdata(), line.get_ydata()))
    return x, y


def legend(panel: Axes) -> str:
    return "; ".join(" ".join(label.split()) for label in panel.get_legend_handles_labels()[1])


def test_the_file_is_a_png_of_the_stated_size(tmp_path: Path) -> None:
    knee_figure(stored("plan"), tmp_path / "knee.png")
    data = (tmp_path / "knee.png").read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", data[16:24]) == (round(DPI * WIDTH), round(DPI * HEIGHT))


def test_the_same_plan_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        knee_figure(stored("plan"), tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert b"Software" not in (tmp_path / "a").read_bytes()


def test_axes_carry_units_and_the_title_says_what_was_measured() -> None:
    figure = draw_knee(stored("plan"))
    labels = [" ".join(panel.get_ylabel().split()) for panel in figure.axes]
    assert labels == [
        "goodput, requests/s per replica",
        "attainment, % of requests",
        "TTFT, ms (log scale)",
        "TPOT, ms (log scale)",
    ]
    assert figure.axes[-1].get_xlabel() == "offered rate, requests/s per replica"
    title = figure.get_suptitle()
    for word in ("chat-llama-3.1-8b-h200", "llama-3.1-8b on 1 x h200", "analytic, no step was measured"):
        assert word in title


def test_curves_are_those_of_the_sweep() -> None:
    result = stored("plan")
    goodput, attainment, ttft, tpot = draw_knee(result).axes
    rates = [point["rate_per_replica"] for point in result["sweep"]]
    means = {"ttft": ttft, "tpot": tpot}
    for metric, panel in means.items():
        for name in ("p50", "p95", "p99"):
            x, y = drawn(panel, name)
            assert x == rates
            # 1000 times a float in another order of operations: one rounding.
            assert y == pytest.approx([1000 * point[metric][name][0] for point in result["sweep"]], rel=1e-15)
    assert drawn(attainment, "inside every latency gate")[1] == [
        point["attainment"][0] for point in result["sweep"]
    ]
    label = "goodput: inside every gate\n(band: least to most of the runs)"
    assert drawn(goodput, label)[1] == [point["goodput"][0] for point in result["sweep"]]


def test_landmarks_stand_at_their_rates_in_every_panel() -> None:
    result = stored("plan")
    figure = draw_knee(result)
    rate, saturated = result["operating_point"]["rate"], result["saturated_rate"]["mean"]
    for panel in figure.axes:
        assert vertical_lines(panel) == [rate, saturated]
    words = legend(figure.axes[0])
    for said in (
        "operating point: 13.8 requests/s inside every gate at 14.3 offered",
        "knee bracket: undecided from 14.56",
        "overloaded from 25.16",
        "bound by hand: 49.39 (compute), off the axis",
    ):
        assert said in words
    assert [text.get_text() for text in figure.axes[0].texts] == ["operating point 14.3/s", "overloaded"]


def test_limits_are_lines_at_their_values() -> None:
    _, attainment, ttft, tpot = draw_knee(stored("plan")).axes
    assert drawn(attainment, "ttft p95, tpot p95 need 95%")[1] == [0.95, 0.95]
    assert drawn(ttft, "limit of p95: 500ms")[1] == [500, 500]
    assert drawn(tpot, "limit of p95: 30ms")[1] == [30, 30]


def test_the_bound_is_drawn_where_it_is_on_the_axis() -> None:
    result = stored("plan")
    result["bound"]["rate"] = 27.5
    panel = draw_knee(result).axes[0]
    assert 27.5 in vertical_lines(panel)
    assert "off the axis" not in legend(panel)


def test_infinite_percentiles_are_gaps_marked_on_the_edge() -> None:
    result = with_failed_requests()
    panel = draw_knee(result).axes[2]
    rates = [point["rate"] for point in result["sweep"]]
    _, p95 = drawn(panel, "p95")
    assert np.isnan(p95).tolist() == [rate > 17 for rate in rates]
    assert drawn(panel, "p99 infinite:\nrequests failed")[0] == [rate for rate in rates if rate > 17]


def test_a_metric_without_any_figure_leaves_a_word(tmp_path: Path) -> None:
    result = stored("plan")
    for point in result["sweep"]:
        point["error_rate"] = 0.0
        point["tpot"] = {figure: [None, None, None] for figure in point["tpot"]}
    for gates in (result["operating_point"]["gates"], *(point["gates"] for point in result["sweep"])):
        del gates[1]
    knee_figure(result, tmp_path / "knee.png")
    assert [text.get_text() for text in draw_knee(result).axes[3].texts] == ["no finite figure at any rate"]


def test_without_latency_gates_there_are_no_limits(tmp_path: Path) -> None:
    result = without_latency_gates()
    knee_figure(result, tmp_path / "knee.png")
    assert all(
        "limit of" not in legend(panel) and "need" not in legend(panel) for panel in draw_knee(result).axes
    )


def test_other_gated_metrics_and_percentiles_are_drawn_too() -> None:
    result = stored("plan")
    for gates in (result["operating_point"]["gates"], *(point["gates"] for point in result["sweep"])):
        gates += [
            {**gates[0], "name": "ttft p90", "limit": 0.4},
            {**gates[0], "name": "e2e p95", "limit": 10.0},
        ]
    figure = draw_knee(result)
    assert figure.get_figheight() == pytest.approx(HEIGHT + PANEL)
    assert figure.axes[4].get_ylabel().startswith("E2E, ms")
    observed = [1000 * point["gates"][-2]["observed"] for point in result["sweep"]]
    assert drawn(figure.axes[2], "p90")[1] == observed
    assert "limit of p90: 400ms" in legend(figure.axes[2])


def test_a_low_operating_point_is_not_squashed(tmp_path: Path) -> None:
    result = stored("plan")
    result["sweep"][0].update(rate=0.5, rate_per_replica=0.5)
    result["operating_point"].update(rate=0.5, goodput=0.5, bracket=[0.5, result["sweep"][1]["rate"]])
    knee_figure(result, tmp_path / "knee.png")
    panel = draw_knee(result).axes[0]
    assert panel.get_xscale() == "log"
    assert vertical_lines(panel)[0] == 0.5


def test_two_rates_are_enough(tmp_path: Path) -> None:
    result = stored("plan")
    result["sweep"] = [
        point for point in result["sweep"] if point["rate"] in result["operating_point"]["bracket"]
    ]
    assert len(result["sweep"]) == 2
    knee_figure(result, tmp_path / "knee.png")
    assert (tmp_path / "knee.png").stat().st_size > 0


def test_no_words_overlap() -> None:
    figure = draw_knee(stored("plan"))
    figure.draw_without_rendering()
    boxes = []
    for panel in figure.axes:
        found = panel.get_legend()
        assert found is not None
        boxes += [text.get_window_extent() for text in (*panel.texts, *found.get_texts())]
    overlaps = [(a, b) for i, a in enumerate(boxes) for b in boxes[:i] if a.overlaps(b)]
    assert overlaps == []
    page = figure.bbox
    assert all(page.x0 <= box.x0 and box.x1 <= page.x1 for box in boxes)


def test_drawing_does_not_touch_pyplot() -> None:
    program = "import sys, capsim.report.figure; sys.exit('matplotlib.pyplot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
