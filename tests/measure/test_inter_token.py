from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capsim.measure.inter_token import RELATIVE_BOUND, Gaps, inter_token_gaps
from capsim.measure.leaps import Occupancy, leap_durations, leaps_since
from capsim.measure.percentile import percentiles
from tests.measure.run_logs import leap, leap_columns, two_requests

NO_GAPS = np.array([])

LEAPS = st.builds(
    leap,
    st.just(0.0),
    st.floats(0.01, 1.0),
    steps=st.integers(1, 40),
    decodes=st.integers(0, 5),
    slope=st.one_of(st.just(0.0), st.floats(-2e-4, 1e-2)),
)


def one_by_one(rows: list[dict[str, Any]]) -> list[float]:
    return [
        row["first"] + step * row["slope"]
        for row in rows
        for step in range(row["steps"])
        for _ in range(row["decodes"])
    ]


def expanded(gaps: Gaps) -> list[float]:
    return sorted(np.repeat(gaps.seconds, gaps.count).tolist())


def test_gaps_by_hand() -> None:
    gaps = inter_token_gaps(two_requests().leaps, np.array([3.0]), unserved=4)
    assert expanded(gaps) == [0.5, 0.75, 3.0, *[np.inf] * 4]
    assert gaps.total == 7
    assert gaps.within(0.75) == 2
    assert gaps.bound == 0.0


@given(st.lists(LEAPS, max_size=8))
def test_leaps_expand_to_their_steps(rows: list[dict[str, Any]]) -> None:
    gaps = inter_token_gaps(leap_columns(*rows), NO_GAPS)
    assert expanded(gaps) == sorted(one_by_one(rows))


@given(st.lists(LEAPS, min_size=1, max_size=8))
def test_grouped_gaps_stay_within_their_bound(rows: list[dict[str, Any]]) -> None:
    exact = np.array(sorted(one_by_one(rows)))
    gaps = inter_token_gaps(leap_columns(*rows), NO_GAPS, most_steps=0)
    grouped = np.array(expanded(gaps))
    assert gaps.bound == RELATIVE_BOUND or len(grouped) == 0
    assert len(grouped) == len(exact)
    # Both sorted: every quantile is at most the bound too high, and never too low, but for rounding.
    assert (grouped >= exact * (1 - 1e-12)).all()
    assert (grouped <= exact * (1 + RELATIVE_BOUND) * (1 + 1e-12)).all()


def test_grouping_saves_memory_on_long_leaps() -> None:
    rows = leap_columns(leap(0.0, 0.01, steps=1_000_000, slope=1e-8, decodes=3))
    exact, grouped = inter_token_gaps(rows, NO_GAPS), inter_token_gaps(rows, NO_GAPS, most_steps=1000)
    assert len(exact.seconds) == 1_000_000
    # The step time doubles: with groups of equal size that differ by at most 0.1 % of the least, 1000 of them.
    assert len(grouped.seconds) == pytest.approx(1000, abs=1)
    assert grouped.total == exact.total == 3_000_000
    (p95,) = percentiles(exact.seconds, [95], exact.count)
    assert percentiles(grouped.seconds, [95], grouped.count)[0] == pytest.approx(p95, rel=RELATIVE_BOUND)


def test_a_leap_of_equal_steps_is_one_group() -> None:
    gaps = inter_token_gaps(leap_columns(leap(0.0, 0.5, steps=1000, decodes=2)), NO_GAPS)
    assert gaps.seconds.tolist() == [0.5]
    assert gaps.count.tolist() == [2000]


@given(st.lists(LEAPS, max_size=8))
def test_durations_are_sums_of_steps(rows: list[dict[str, Any]]) -> None:
    sums = [sum(row["first"] + step * row["slope"] for step in range(row["steps"])) for row in rows]
    assert leap_durations(leap_columns(*rows)).tolist() == pytest.approx(sums, rel=1e-12)  # rounding only


def test_occupancy_by_hand() -> None:
    full = Occupancy.of(two_requests().leaps)
    assert full.steps == 3
    assert full.busy_time == 2.25
    assert full.mixed_steps == 1 / 3
    assert full.running_mean == (1.0 + 2 * 0.5 + 0.75) / 2.25
    assert full.waiting_mean == 0.5 / 2.25
    assert full.blocks_mean == (1.0 + 3 * 0.5 + 0.75) / 2.25
    assert (full.running_max, full.waiting_max, full.blocks_max) == (2, 1, 3)


def test_occupancy_of_nothing() -> None:
    nothing = Occupancy.of(leap_columns())
    assert nothing.steps == nothing.running_max == 0
    assert np.isnan([nothing.running_mean, nothing.mixed_steps]).all()


def test_leaps_since() -> None:
    assert leaps_since(two_requests().leaps, 2.0).start.tolist() == [2.0, 2.5]
