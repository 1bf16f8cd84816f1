"""The engine against queueing theory, by interval: 99.9 %, Student's t over 20 replications with fixed seeds."""

from __future__ import annotations

import numpy as np
import pytest

from tests.analytic.closed_forms import CLOSED_FORMS, ClosedForm
from tests.analytic.fleet_forms import FLEET_FORMS
from tests.analytic.interval import CONFIDENCE, Interval

forms = pytest.mark.parametrize("form", [*CLOSED_FORMS, *FLEET_FORMS], ids=lambda form: form.name)


@forms
def test_the_formula_lies_in_the_interval(form: ClosedForm) -> None:
    interval = form.estimate()
    assert interval.contains(form.value, form.bias), (form.value, interval)


@forms
def test_the_interval_says_something(form: ClosedForm) -> None:
    """Half of it, and what steps may distort, stay below 3 % of the value."""
    assert form.estimate().half_width + form.bias < 0.03 * form.value


@forms
@pytest.mark.parametrize("factor", [0.95, 1.05])
def test_a_formula_that_is_wrong_by_5_percent_lies_outside(form: ClosedForm, factor: float) -> None:
    assert not form.estimate().contains(factor * form.value, form.bias)


@pytest.mark.parametrize("form", [form for form in CLOSED_FORMS if "infinity" in form.name], ids=str)
def test_the_wait_for_the_step_in_flight_can_be_seen(form: ClosedForm) -> None:
    """Without the half step before the first one, 20 steps of service instead of 20.5, the formula is refused."""
    assert not form.estimate().contains(form.value * 20 / 20.5)


def test_intervals_cover_as_often_as_they_say() -> None:
    """Of 4,000 intervals of a normal mean, 4 are expected to miss; more than 14 have a chance of 1 in 40,000."""
    samples = np.random.default_rng(5).normal(3.0, 2.0, (4000, 20))
    misses = sum(not Interval.of(row).contains(3.0) for row in samples)
    assert CONFIDENCE == 0.999
    assert misses <= 14
