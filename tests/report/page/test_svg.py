from __future__ import annotations

import math
from xml.etree import ElementTree

import pytest

from capsim.report.page.svg import coordinate, element, path, words


def test_attributes_are_named_as_svg_names_them_and_escaped() -> None:
    made = element("text", words("a < b & c"), class_="label", text_anchor="end", x=1.25, title='"quoted"')
    assert made == (
        '<text class="label" text-anchor="end" x="1.2" title="&quot;quoted&quot;">a &lt; b &amp; c</text>'
    )
    assert ElementTree.fromstring(made).text == "a < b & c"


def test_without_children_an_element_ends_itself() -> None:
    assert element("line", x1=0.0) == '<line x1="0"/>'


@pytest.mark.parametrize(
    ("value", "text"), [(3.0, "3"), (2.04, "2"), (2.06, "2.1"), (-0.01, "0"), (1e4, "10000")]
)
def test_coordinates_are_short(value: float, text: str) -> None:
    assert coordinate(value) == text


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_no_place_is_no_coordinate(value: float) -> None:
    with pytest.raises(ValueError, match="no coordinate"):
        coordinate(value)


def test_a_path_has_gaps_where_points_are_missing() -> None:
    points = [(0.0, 1.0), (1.0, 2.0), (2.0, math.nan), (3.0, 4.0), (math.inf, 4.0), (5.0, 6.0), (6.0, 7.0)]
    assert path(points) == "M0 1L1 2M5 6L6 7"
    assert path([(0.0, 0.0)]) == ""
    assert path([]) == ""
