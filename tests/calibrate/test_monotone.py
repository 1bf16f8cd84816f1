from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrate.monotone import monotone

# Distances of a few units: sums of them are exact enough for the comparisons below.
_VALUES = st.floats(0.0, 100.0, allow_nan=False).map(lambda value: round(value, 3))


def _least_squares(values: list[float]) -> np.ndarray:
    """Isotonic regression by its min-max formula (Barlow et al. 1972, theorem 1.4), which is slow and plain."""
    means = {
        (low, high): sum(values[low : high + 1]) / (high - low + 1)
        for low, high in itertools.combinations_with_replacement(range(len(values)), 2)
    }
    places = range(len(values))
    return np.asarray(
        [
            max(min(means[low, high] for high in places[place:]) for low in places[: place + 1])
            for place in places
        ]
    )


@given(st.lists(_VALUES, min_size=1, max_size=12))
def test_a_curve_is_the_closest_that_never_falls(values: list[float]) -> None:
    fitted, _ = monotone(values)
    np.testing.assert_allclose(fitted, _least_squares(values), rtol=1e-9, atol=1e-9)  # both round their means


@given(st.lists(st.lists(_VALUES, min_size=4, max_size=4), min_size=1, max_size=5))
def test_a_grid_falls_along_no_axis(rows: list[list[float]]) -> None:
    fitted, _ = monotone(rows)
    assert (np.diff(fitted, axis=0) >= 0).all()
    assert (np.diff(fitted, axis=1) >= 0).all()


def test_what_never_falls_stays_as_it_is() -> None:
    grid = np.add.outer(np.arange(4.0), np.arange(5.0))
    fitted, move = monotone(grid)
    np.testing.assert_array_equal(fitted, grid)
    assert move == 0.0


def test_the_largest_move_is_relative() -> None:
    fitted, move = monotone([1.0, 4.0, 2.0, 8.0])
    assert fitted.tolist() == [1.0, 3.0, 3.0, 8.0]
    assert move == 0.5  # 2 became 3


def test_only_the_axes_asked_for() -> None:
    fitted, _ = monotone([[2.0, 1.0], [0.0, 3.0]], axes=(0,))
    assert fitted.tolist() == [[1.0, 1.0], [1.0, 3.0]]


def test_zeros_have_no_relative_move() -> None:
    assert monotone([0.0, 0.0])[1] == 0.0


def test_a_value_that_is_not_finite_is_refused() -> None:
    with pytest.raises(ValueError, match="finite"):
        monotone([1.0, float("nan")])
