from __future__ import annotations

import math
from xml.etree import ElementTree

from capsim.report.page.chart import HEIGHT, WIDTH, X_SPAN, Y_SPAN, Chart
from capsim.report.page.scale import linear


def chart() -> Chart:
    return Chart(linear(0.0, 10.0, *X_SPAN), linear(0.0, 100.0, *Y_SPAN), "rate, requests/s")


def drawn(made: Chart) -> ElementTree.Element:
    return ElementTree.fromstring(made.svg("knee", "The knee", "What is to be seen & why."))


def of_class(root: ElementTree.Element, name: str) -> list[ElementTree.Element]:
    return [node for node in root.iter() if name in node.get("class", "").split()]


def test_a_chart_has_a_name_and_a_description_for_those_who_cannot_see_it() -> None:
    root = drawn(chart())
    assert root.get("role") == "img"
    labels = (root.get("aria-labelledby") or "").split()
    texts = {node.get("id"): node.text for node in root}
    assert [texts[label] for label in labels] == ["The knee", "What is to be seen & why."]


def test_axes_have_figures_and_a_name() -> None:
    texts = [node.text for node in drawn(chart()).iter("text")]
    assert texts == ["0", "2", "4", "6", "8", "10", "0", "20", "40", "60", "80", "100", "rate, requests/s"]


def test_a_line_goes_through_its_points() -> None:
    made = chart()
    made.line([(0.0, 0.0), (5.0, 50.0), (10.0, 100.0)], "p95")
    (line,) = of_class(drawn(made), "p95")
    (left, right), (bottom, top) = X_SPAN, Y_SPAN
    middle = f"{(left + right) / 2:g} {(bottom + top) / 2:g}"
    assert line.get("d") == f"M{left:g} {bottom:g}L{middle}L{right:g} {top:g}"


def test_steps_are_level_between_edges() -> None:
    made = chart()
    made.steps([0.0, 5.0, 10.0], [100.0, 0.0], "mean")
    (line,) = of_class(drawn(made), "mean")
    (left, right), (bottom, top) = X_SPAN, Y_SPAN
    middle = (left + right) / 2
    assert line.get("d") == f"M{left:g} {top:g}L{middle:g} {top:g}L{middle:g} {bottom:g}L{right:g} {bottom:g}"


def test_a_band_leaves_out_what_does_not_exist() -> None:
    made = chart()
    upper = [(float(x), 50.0 if x != 2 else math.nan) for x in range(6)]
    made.band([(float(x), 10.0) for x in range(6)], upper, "p50")
    bands = of_class(drawn(made), "p50")
    assert len(bands) == 2
    assert all((band.get("d") or "").endswith("Z") for band in bands)


def test_what_is_not_on_the_axis_is_not_drawn() -> None:
    made = chart()
    made.upright(11.0, "outside")
    made.level(-1.0, "outside")
    made.strip(11.0, 12.0, "outside")
    made.mark(5.0, math.nan, "outside fail")
    assert of_class(drawn(made), "outside") == []


def test_a_strip_ends_where_the_axis_ends() -> None:
    made = chart()
    made.strip(8.0, math.inf, "overload")
    (strip,) = of_class(drawn(made), "overload")
    assert float(strip.get("x") or 0) + float(strip.get("width") or 0) == X_SPAN[1]


def test_marks_differ_in_shape_and_not_in_colour_alone() -> None:
    made = chart()
    for x, verdict in enumerate(("pass", "undecided", "fail", "overloaded")):
        made.mark(float(x), 50.0, f"goodput {verdict}")
    shapes = {(node.get("class") or "").split()[-1]: node.tag for node in of_class(drawn(made), "goodput")}
    assert shapes == {"pass": "circle", "undecided": "circle", "fail": "path", "overloaded": "path"}


def test_a_label_that_would_leave_the_chart_is_turned() -> None:
    made = chart()
    made.label(9.5, 50.0, "a label of some length")
    made.label(0.2, 50.0, "a label of some length", anchor="end")
    anchors = [node.get("text-anchor") for node in of_class(drawn(made), "label")]
    assert anchors == ["end", "start"]


def test_the_chart_is_drawn_at_its_size() -> None:
    assert drawn(chart()).get("viewBox") == f"0 0 {WIDTH:g} {HEIGHT:g}"
