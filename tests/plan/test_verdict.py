from __future__ import annotations

import numpy as np
import pytest

from capsim.plan.verdict import Verdict, combine, interval, judge, looks, rule_of_three


def test_interval_is_students() -> None:
    """By hand: mean 0.9, standard deviation 0.01, t(2, 97.5 %) = 4.3027 (any table): half-width 0.0248."""
    found = interval([0.89, 0.90, 0.91], looks_planned=1)
    assert found.mean == pytest.approx(0.9)
    assert found.high - found.mean == pytest.approx(4.3027 * 0.01 / 3**0.5, rel=1e-4)


def test_the_error_is_divided_over_the_looks() -> None:
    assert interval([0.5, 0.6, 0.7], 1).confidence == pytest.approx(0.95)
    assert interval([0.5, 0.6, 0.7], 5).confidence == pytest.approx(0.99)
    assert interval([0.5, 0.6, 0.7], 5).low < interval([0.5, 0.6, 0.7], 1).low


def test_one_replication_decides_nothing() -> None:
    assert judge(interval([1.0], 1), 0.95) is Verdict.UNDECIDED


def test_three_ways() -> None:
    assert judge(interval([0.99, 0.991, 0.992], 1), 0.95) is Verdict.PASS
    assert judge(interval([0.90, 0.901, 0.902], 1), 0.95) is Verdict.FAIL
    assert judge(interval([0.94, 0.95, 0.96], 1), 0.95) is Verdict.UNDECIDED


def test_combine() -> None:
    assert combine([Verdict.PASS, Verdict.PASS]) is Verdict.PASS
    assert combine([Verdict.PASS, Verdict.UNDECIDED]) is Verdict.UNDECIDED
    assert combine([Verdict.UNDECIDED, Verdict.FAIL]) is Verdict.FAIL


@pytest.mark.parametrize(("budget", "expected"), [(1, (1,)), (4, (4,)), (5, (4, 5)), (8, (4, 6, 8))])
def test_looks_end_at_the_budget(budget: int, expected: tuple[int, ...]) -> None:
    assert looks(budget) == expected


def test_rule_of_three() -> None:
    """The exact bound lies below 3 / n and approaches it."""
    assert rule_of_three(10) == pytest.approx(0.2589, abs=1e-4)
    assert 0.99 < rule_of_three(1000) / (3 / 1000) < 1


def test_wrong_verdicts_stay_within_the_stated_error() -> None:
    """Sequential looks at a share that lies exactly on the requirement: at most 5 % may be decided either way.

    2,000 trials, so that the binomial error of the rate is 0.5 %; the bound allows three of them.
    """
    generator = np.random.default_rng(1)
    trials, decided = 2000, 0
    for _ in range(trials):
        shares = generator.normal(0.9, 0.01, 8)
        verdicts = [judge(interval(shares[:look].tolist(), 3), 0.9) for look in looks(8)]
        decided += any(verdict is not Verdict.UNDECIDED for verdict in verdicts)
    assert decided / trials <= 0.05 + 3 * 0.005
