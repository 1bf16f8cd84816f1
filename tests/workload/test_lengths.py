from __future__ import annotations

import math

import numpy as np
import pytest

from capsim.errors import BadInput
from capsim.workload.lengths import (
    FixedLength,
    GeometricLength,
    LengthDistribution,
    LognormalLength,
    UniformLength,
)

DISTRIBUTIONS = [
    FixedLength(17),
    UniformLength(3, 12),
    LognormalLength(1000.0, 1.2),
    LognormalLength(1000.0, 1.2, 2048),
    LognormalLength(50.0, 0.0),
    GeometricLength(200.0),
    GeometricLength(1.0),
]
SAMPLES = 40_000


@pytest.mark.parametrize("lengths", DISTRIBUTIONS, ids=str)
def test_samples_have_the_expected_mean_and_quantiles(lengths: LengthDistribution) -> None:
    sample = lengths.sample(SAMPLES, np.random.default_rng(1))
    assert sample.dtype == np.int64
    assert sample.min() >= 1
    # Four standard errors, and half a token by which rounding may shift a lognormal.
    assert sample.mean() == pytest.approx(lengths.expected, abs=4 * sample.std() / math.sqrt(SAMPLES) + 0.5)
    for share in (0.05, 0.5, 0.95, 0.99):
        quantile = lengths.quantile(share)
        # Four standard deviations of a binomial share; rounding moves lognormal quantiles by at most 1 token.
        slack = 4 * math.sqrt(share * (1 - share) / SAMPLES)
        assert np.mean(sample <= quantile + 1) >= share - slack
        assert np.mean(sample < quantile - 1) <= share + slack


@pytest.mark.parametrize("lengths", DISTRIBUTIONS, ids=str)
def test_the_first_samples_do_not_depend_on_how_many_are_drawn(lengths: LengthDistribution) -> None:
    few = lengths.sample(10, np.random.default_rng(1))
    many = lengths.sample(1000, np.random.default_rng(1))
    assert few.tolist() == many[:10].tolist()


@pytest.mark.parametrize("lengths", DISTRIBUTIONS, ids=str)
def test_samples_reach_a_length_as_often_as_they_should(lengths: LengthDistribution) -> None:
    sample = lengths.sample(SAMPLES, np.random.default_rng(1))
    for tokens in (0, 1, 2, 3, 12, 13, 17, 18, 50, 51, 700, 2048, 2049):
        expected = lengths.at_least(tokens)
        # Four standard deviations of a binomial share.
        slack = 4 * math.sqrt(expected * (1 - expected) / SAMPLES)
        assert np.mean(sample >= tokens) == pytest.approx(expected, abs=slack)


def test_lognormal_has_the_stated_mean_and_cv() -> None:
    sample = LognormalLength(1000.0, 0.5).sample(SAMPLES, np.random.default_rng(2))
    # The sample cv of a lognormal with cv 0.5 has a standard error below 1 % at this size.
    assert sample.std() / sample.mean() == pytest.approx(0.5, rel=0.04)


def test_lognormal_is_cut_at_its_maximum() -> None:
    sample = LognormalLength(1000.0, 2.0, 1500).sample(1000, np.random.default_rng(3))
    assert sample.max() == 1500
    assert np.mean(sample == 1500) > 0.05


def test_uniform_reaches_both_ends() -> None:
    assert set(UniformLength(3, 5).sample(100, np.random.default_rng(4)).tolist()) == {3, 4, 5}


def test_discrete_quantiles_by_hand() -> None:
    assert UniformLength(1, 10).quantile(0.5) == 5
    # P(X <= k) = 1 - 2^-k: 3/4 at k = 2.
    assert GeometricLength(2.0).quantile(0.75) == 2
    assert GeometricLength(2.0).quantile(0.76) == 3


@pytest.mark.parametrize(
    "make",
    [
        lambda: FixedLength(0),
        lambda: UniformLength(0, 3),
        lambda: UniformLength(4, 3),
        lambda: LognormalLength(0.5, 1.0),
        lambda: LognormalLength(10.0, -1.0),
        lambda: LognormalLength(math.nan, 1.0),
        lambda: LognormalLength(10.0, 1.0, 0),
        lambda: GeometricLength(0.9),
        lambda: GeometricLength(math.inf),
    ],
)
def test_impossible_lengths_are_refused(make: object) -> None:
    assert callable(make)
    with pytest.raises(BadInput, match="found"):
        make()
