"""Charts of a result: what is drawn is what the result says, at its place."""

from __future__ import annotations

import copy
import re
from xml.etree import ElementTree

import pytest

from capsim.report.number import milliseconds
from capsim.report.page.block import Figure
from capsim.report.page.chart import X_SPAN, Y_SPAN
from capsim.report.page.course_charts import distribution_charts, time_charts
from capsim.report.page.knee_charts import knee_charts
from capsim.report.page.parts_chart import parts_of_ttft
from capsim.report.page.tag import DERIVED
from tests.report.page.conftest import Answer
from tests.report.results import stored, with_failed_requests, without_latency_gates

PIXEL = 0.051
"""Coordinates are rounded to a tenth."""


def drawn(figure: Figure, name: str) -> list[ElementTree.Element]:
    """Elements of a chart with exactly these classes."""
    return [node for node in ElementTree.fromstring(figure.svg).iter() if node.get("class") == name]


def points(figure: Figure, name: str) -> list[tuple[float, float]]:
    """Points of a chart's only line of this name."""
    (line,) = drawn(figure, name)
    pairs = re.findall(r"(-?[\d.]+) (-?[\d.]+)", line.get("d") or "")
    return [(float(x), float(y)) for x, y in pairs]


def words(figure: Figure) -> list[str]:
    return [key.text for key in figure.keys]


def test_the_knee_has_a_chart_a_metric_and_a_mark_a_rate() -> None:
    result = stored("plan")
    figures = knee_charts(result)
    assert [figure.title.split(",")[0] for figure in figures] == ["Goodput", "Attainment", "TTFT", "TPOT"]
    marks: dict[str, int] = {}
    for node in ElementTree.fromstring(figures[0].svg).iter():
        if (node.get("class") or "").startswith("mark goodput"):
            verdict = (node.get("class") or "").split()[-1]
            marks[verdict] = marks.get(verdict, 0) + 1
    expected: dict[str, int] = {}
    for point in result["sweep"]:
        verdict = "overloaded" if point["overloaded"] else point["verdict"]
        expected[verdict] = expected.get(verdict, 0) + 1
    assert marks == expected


def test_curves_of_the_sweep_are_at_their_places() -> None:
    result = stored("plan")
    figure = knee_charts(result)[0]
    right = 1.04 * result["sweep"][-1]["rate_per_replica"]
    x = [X_SPAN[0] + (X_SPAN[1] - X_SPAN[0]) * point["rate_per_replica"] / right for point in result["sweep"]]
    found = points(figure, "line goodput")
    assert [place for place, _ in found] == pytest.approx(x, abs=PIXEL)
    heights = [(Y_SPAN[0] - place) for _, place in found]
    goodput = [point["goodput"][0] for point in result["sweep"]]
    scale = heights[0] / goodput[0]
    # Both the first height and each other one are rounded to a tenth.
    assert heights == pytest.approx([scale * value for value in goodput], rel=0.01, abs=2 * PIXEL)


def test_limits_are_named_with_their_figures() -> None:
    _, attainment, ttft, tpot = knee_charts(stored("plan"))
    assert "ttft p95, tpot p95 need 95%" in words(attainment)
    assert "limit of p95: 500ms" in words(ttft)
    assert "limit of p95: 30ms" in words(tpot)


def test_infinite_percentiles_are_marked() -> None:
    _, _, ttft, _ = knee_charts(with_failed_requests())
    assert "p99 infinite: requests failed" in words(ttft)
    assert len(drawn(ttft, "mark infinite fail")) == sum(
        point["rate"] > 17 for point in with_failed_requests()["sweep"]
    )


def test_without_latency_gates_there_are_no_limits() -> None:
    assert all("limit" not in " ".join(words(figure)) for figure in knee_charts(without_latency_gates()))


def test_a_low_operating_point_is_not_squashed() -> None:
    result = stored("plan")
    result["sweep"][0].update(rate=0.5, rate_per_replica=0.5)
    result["operating_point"].update(rate=0.5, goodput=0.5, bracket=[0.5, result["sweep"][1]["rate"]])
    (line,) = drawn(knee_charts(result)[0], "point")
    assert float(line.get("x1") or 0) > X_SPAN[0] + 5


def test_time_goes_from_the_first_bin_to_the_last(plan: Answer) -> None:
    assert plan.course is not None
    kv, batch, queue, flows = time_charts(plan.course)
    for figure, name in ((kv, "most"), (batch, "mean"), (queue, "most"), (flows, "arrivals")):
        line = points(figure, f"line {name}")
        assert len(line) == 2 * len(plan.course["timeline"]["arrivals"])
        assert (line[0][0], line[-1][0]) == pytest.approx(X_SPAN, abs=PIXEL)


def test_an_outage_is_a_strip_where_it_was(run: Answer) -> None:
    assert run.course is not None
    down, up = (change["time"] for change in run.course["states"] if change["state"] in ("down", "up"))
    width = run.course["timeline"]["width"] * len(run.course["timeline"]["arrivals"])
    figure = time_charts(run.course)[0]
    (strip,) = drawn(figure, "outage")
    place = X_SPAN[0] + (X_SPAN[1] - X_SPAN[0]) * down / width
    assert float(strip.get("x") or 0) == pytest.approx(place, abs=PIXEL)
    length = (X_SPAN[1] - X_SPAN[0]) * (min(up, width) - down) / width
    assert float(strip.get("width") or 0) == pytest.approx(length, abs=2 * PIXEL)
    assert "a replica is missing" in words(figure)


def test_without_time_there_is_no_chart(plan: Answer) -> None:
    course = copy.deepcopy(plan.course)
    assert course is not None
    course["timeline"] = {name: [] for name in course["timeline"]} | {"width": 0.0}
    assert time_charts(course) == ()


def test_distributions_rise_to_one_and_name_their_percentiles(plan: Answer) -> None:
    assert plan.course is not None
    gates = plan.result["operating_point"]["gates"]
    figures = distribution_charts(plan.course, gates)
    assert [figure.title.split()[0] for figure in figures] == ["TTFT", "TPOT", "ITL", "E2E"]
    heights = [place for _, place in points(figures[0], "line distribution")]
    assert heights == sorted(heights, reverse=True)
    p95 = plan.course["distributions"]["ttft"][plan.course["percentiles"].index(95)]
    assert f"p95 {1000 * p95:.4g}ms" in " ".join(words(figures[0]))
    assert "gate: p95 at most 400ms" in words(figures[0])
    assert len(drawn(figures[0], "limit")) == 2


def test_a_metric_without_a_finite_figure_has_no_chart(plan: Answer) -> None:
    course = copy.deepcopy(plan.course)
    assert course is not None
    course["distributions"]["tpot"] = [None] * len(course["percentiles"])
    titles = [figure.title for figure in distribution_charts(course, [])]
    assert not any(title.startswith("TPOT") for title in titles)


def test_parts_of_ttft_are_stacked_to_their_sum(plan: Answer) -> None:
    assert plan.course is not None
    bands = plan.course["ttft_bands"]
    charts = parts_of_ttft(bands, DERIVED)
    root = ElementTree.fromstring(charts.figures[0].svg)
    bars = [node for node in root.iter() if (node.get("class") or "").startswith("part-")]
    rows: dict[str, list[ElementTree.Element]] = {}
    for bar in bars:
        rows.setdefault(bar.get("y") or "", []).append(bar)
    lengths = [sum(float(bar.get("width") or 0) for bar in row) for row in rows.values()]
    sums = [sum(band["parts"].values()) for band in bands]
    scale = max(lengths) / max(sums)
    assert lengths == pytest.approx([scale * value for value in sums], abs=6 * PIXEL)
    for row in rows.values():
        ends = [float(bar.get("x") or 0) + float(bar.get("width") or 0) for bar in row]
        assert [float(bar.get("x") or 0) for bar in row[1:]] == pytest.approx(ends[:-1], abs=2 * PIXEL)
    labels = [node.text for node in root.iter("text") if node.get("class") == "label"]
    assert labels[1::2] == [milliseconds(value) for value in sums]
