from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capsim.measure.percentile import MOST_SORTED, Distribution, least_count, percentiles


@pytest.mark.parametrize(
    ("percentile", "total", "count"),
    [
        (95, 20, 19),
        (95, 21, 20),
        (50, 3, 2),
        (100, 7, 7),
        (99.9, 1000, 999),
        (7, 100, 7),
        (0.001, 10, 1),
        (95, 1, 1),
    ],
)
def test_least_count_by_hand(percentile: float, total: int, count: int) -> None:
    assert least_count(percentile, total) == count


@given(
    st.lists(st.tuples(st.floats(0, 100), st.integers(0, 5)), min_size=1, max_size=30),
    st.floats(0.1, 100),
)
def test_weights_are_repetitions(samples: list[tuple[float, int]], percentile: float) -> None:
    values, weights = (np.array(column) for column in zip(*samples, strict=True))
    (weighted,) = percentiles(values, [percentile], weights)
    expanded = np.repeat(values, weights)
    if len(expanded) == 0:
        assert math.isnan(weighted)
        return
    assert weighted == percentiles(expanded, [percentile])[0]
    assert weighted == np.sort(expanded)[least_count(percentile, len(expanded)) - 1]


@pytest.mark.parametrize("percentile", [50, 90, 95, 99])
def test_same_as_numpy(percentile: int) -> None:
    values = np.random.default_rng(1).exponential(size=997)  # prime, so that no rank is a rounding case
    expected = np.quantile(values, percentile / 100, method="inverted_cdf")
    assert percentiles(values, [percentile]) == [expected]


@given(
    st.lists(st.floats(0, 10), min_size=1, max_size=40),
    st.sampled_from([50, 90, 95, 99, 100]),
    st.floats(0, 10),
)
def test_a_percentile_within_the_limit_is_a_share_within_the_limit(
    samples: list[float], percentile: float, limit: float
) -> None:
    values = np.array(samples)
    enough = int((values <= limit).sum()) >= least_count(percentile, len(values))
    assert (percentiles(values, [percentile])[0] <= limit) == enough


def test_distribution_by_hand() -> None:
    figures = Distribution.of(np.array([2.0] * 5 + [math.nan] + [1.0] * 3 + [4.0, math.inf]))
    assert figures.count == 10
    assert figures.mean == (5 * 2 + 3 * 1 + 4) / 9
    assert (figures.p50, figures.p90, figures.p95, figures.p99) == (2.0, 4.0, math.inf, math.inf)


def test_weighted_values_in_parts_are_distributed_as_their_repetitions() -> None:
    parts = [
        (np.array([2.0, 1.0]), np.array([5, 3])),
        (np.zeros(0), np.zeros(0, np.int64)),
        (np.array([4.0, math.inf]), np.array([1, 1])),
    ]
    repeated = np.concatenate([np.repeat(values, weights) for values, weights in parts])
    assert Distribution.of_parts(lambda: iter(parts)) == Distribution.of(repeated)


def test_distribution_of_nothing() -> None:
    figures = Distribution.of(np.array([math.nan]))
    assert figures.count == 0
    assert math.isnan(figures.mean)
    assert math.isnan(figures.p99)


@pytest.mark.parametrize("spread", [1e-3, 1.0, 1e9])
def test_many_weighted_values_in_parts_have_the_percentiles_of_their_repetitions(spread: float) -> None:
    """Exactly, whether they share their leading bits or not; some are infinite, negative, or count nothing."""
    random = np.random.default_rng(7)
    values = np.concatenate([1 + spread * random.standard_normal(300_000), np.full(3000, math.inf)])
    weights = random.integers(0, 5, len(values))
    wanted = (0.1, 50, 90, 95, 98.9, 99.5)
    assert len(values) > MOST_SORTED
    assert percentiles(values, wanted, weights) == percentiles(np.repeat(values, weights), wanted)
