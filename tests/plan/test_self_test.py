from __future__ import annotations

import pytest

from capsim.cost import ConstantCost
from capsim.plan import self_test
from capsim.plan.self_test import SelfTest, plan_tests, queue_test, self_tests


def test_what_is_known_is_found() -> None:
    assert [test.name for test in self_tests() if not test.passed] == []


def test_the_plan_is_known_to_the_last_figures() -> None:
    assert len(plan_tests()) == 3
    assert all(test.tolerance == 0 for test in plan_tests())


def test_a_wrong_queue_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A service that takes a tenth longer waits a third longer."""
    monkeypatch.setattr(self_test, "ConstantCost", lambda seconds: ConstantCost(1.1 * seconds))
    assert not queue_test().passed


@pytest.mark.parametrize(("found", "passed"), [(2.0, True), (2.0 + 1e-9, True), (2.0001, False), (3, False)])
def test_figures_agree_but_for_rounding(found: float, passed: bool) -> None:
    assert SelfTest("", 2.0, found).passed is passed
