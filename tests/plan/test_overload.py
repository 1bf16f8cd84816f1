"""Overload is a property of the fleet and the rate, not of how long one looks."""

from __future__ import annotations

import pytest

from capsim.plan.deployment import Deployment
from capsim.plan.runner import Runner
from capsim.plan.saturated_rates import saturated_rates
from capsim.plan.simulation import run_simulation


@pytest.fixture(scope="module")
def saturated(deployment: Deployment) -> float:
    rates = saturated_rates(Runner(deployment))
    assert max(rates) / min(rates) < 1.1  # independent replications agree, so that one figure stands for all
    return sum(rates) / len(rates)


@pytest.mark.parametrize("requests", [300, 30_000])
def test_twice_the_saturated_rate_is_overloaded(
    deployment: Deployment, saturated: float, requests: int
) -> None:
    run = run_simulation(deployment, rate=2 * saturated, requests=requests)
    assert "saturated at" in run.overloaded


@pytest.mark.parametrize("requests", [300, 30_000])
def test_nine_tenths_of_it_is_not(deployment: Deployment, saturated: float, requests: int) -> None:
    assert run_simulation(deployment, rate=0.9 * saturated, requests=requests).overloaded == ""


def test_saturated_rate_is_what_an_overloaded_run_completes(deployment: Deployment, saturated: float) -> None:
    """A second way to the same figure: completions per second while 1.5 times as many arrive.

    Within 5 %: the run's own start from empty and 9,000 geometric lengths of cv 1 leave about 2 %.
    """
    run = run_simulation(deployment, rate=1.5 * saturated, requests=9_000)
    assert run.sample["throughput"]["requests"] == pytest.approx(saturated, rel=0.05)


def test_a_closed_loop_is_never_overloaded(deployment: Deployment) -> None:
    run = run_simulation(deployment, concurrency=200, requests=2000)
    assert run.overloaded == ""
    assert run.sample["occupancy"]["running_max"] == 64
