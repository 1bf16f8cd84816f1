from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capsim.report.page.scale import Scale, linear, logarithmic

extents = st.floats(1e-6, 1e6)


def test_ends_are_where_they_are_said_to_be() -> None:
    scale = linear(10.0, 20.0, 50.0, 0.0)
    assert (scale(10.0), scale(15.0), scale(20.0)) == (50.0, 25.0, 0.0)


def test_equal_ratios_are_equally_far_apart() -> None:
    scale = Scale(1.0, 100.0, 0.0, 200.0, logarithmic=True)
    assert [scale(value) for value in (1.0, 10.0, 100.0)] == pytest.approx([0, 100, 200])
    assert math.isnan(scale(0.0))
    assert math.isnan(scale(-1.0))


@given(low=st.floats(-1e3, 1e6), extent=extents, most=st.integers(3, 8))
def test_even_ticks_are_round_few_and_on_the_axis(low: float, extent: float, most: int) -> None:
    ticks = linear(low, low + max(extent, abs(low) * 1e-3), 0.0, 1.0).ticks(most)
    scale = linear(low, low + max(extent, abs(low) * 1e-3), 0.0, 1.0)
    assert 1 <= len(ticks) <= most + 1
    slack = 1e-6  # of the axis: ticks are rounded to 12 digits
    assert all(-slack <= scale(value) <= 1 + slack for value in ticks)


@given(low=extents, ratio=st.floats(1.6, 1e7))
def test_logarithmic_ticks_are_few_and_on_the_axis(low: float, ratio: float) -> None:
    scale = Scale(low, low * ratio, 0.0, 1.0, logarithmic=True)
    ticks = scale.ticks(5)
    assert 1 <= len(ticks) <= 6
    assert all(-1e-3 <= scale(value) <= 1.001 for value in ticks)  # a tick at an end may be rounded out of it


def test_a_scale_without_extent_gets_one() -> None:
    assert linear(3.0, 3.0, 0.0, 1.0)(3.0) == 0.0


def test_only_finite_figures_above_zero_make_a_logarithmic_scale() -> None:
    scale = logarithmic([0.0, math.nan, math.inf, 2.0, 50.0], 0.0, 1.0)
    assert scale is not None
    assert 0 < scale.low < 2
    assert scale.high > 50
    assert logarithmic([0.0, math.inf], 0.0, 1.0) is None
