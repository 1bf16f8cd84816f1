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
from capsim.workload.shared_prefixes import SharedPrefixes

SAMPLES = 40_000


def test_a_share_of_the_prompts_begins_with_each_prefix_as_often() -> None:
    prompt = np.full(SAMPLES, 900, dtype=np.int64)
    prefixes = SharedPrefixes(512, count=4, share=0.6).sample(prompt, np.random.default_rng(1))
    assert len(prefixes) == SAMPLES
    assert set(prefixes.ends.tolist()) == {512}
    counts = np.bincount(prefixes.nodes)
    # Four standard deviations of a binomial count.
    assert counts.tolist() == pytest.approx([0.15 * SAMPLES] * 4, abs=4 * math.sqrt(0.15 * 0.85 * SAMPLES))


def test_only_prompts_long_enough_hold_a_prefix() -> None:
    prompt = np.array([511, 512, 513, 1], dtype=np.int64)
    prefixes = SharedPrefixes(512, count=1).sample(prompt, np.random.default_rng(1))
    assert [prefixes.path(row) for row in range(4)] == [(), ((0, 512),), ((0, 512),), ()]


def test_the_first_choices_do_not_depend_on_how_many_there_are() -> None:
    shared = SharedPrefixes(100, count=3, share=0.5)
    few, many = (shared.sample(np.full(n, 200, dtype=np.int64), np.random.default_rng(1)) for n in (50, 500))
    assert [few.path(row) for row in range(50)] == [many.path(row) for row in range(50)]


@pytest.mark.parametrize(
    "lengths",
    [
        FixedLength(700),
        UniformLength(3, 1200),
        LognormalLength(1000.0, 1.2, 2048),
        GeometricLength(500.0),
    ],
    ids=str,
)
def test_the_expected_reuse_is_that_of_samples(lengths: LengthDistribution) -> None:
    shared = SharedPrefixes(512, share=0.7)
    prompt = lengths.sample(SAMPLES, np.random.default_rng(1))
    inside = np.zeros(SAMPLES)
    prefixes = shared.sample(prompt, np.random.default_rng(2))
    inside[np.diff(prefixes.starts) > 0] = 512
    # Four standard errors of the ratio of two means, by the delta method.
    expected = shared.expected_reuse(lengths)
    error = (inside - expected * prompt).std() / prompt.mean() / math.sqrt(SAMPLES)
    assert inside.sum() / prompt.sum() == pytest.approx(expected, abs=4 * error)


@pytest.mark.parametrize(("tokens", "count", "share"), [(0, 1, 1.0), (5, 0, 1.0), (5, 1, 0.0), (5, 1, 1.1)])
def test_impossible_prefixes_are_refused(tokens: int, count: int, share: float) -> None:
    with pytest.raises(BadInput, match="shared prefixes"):
        SharedPrefixes(tokens, count, share)
