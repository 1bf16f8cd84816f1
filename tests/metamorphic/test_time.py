"""What becomes of a run when its clock is another."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capsim.fleet import FleetConfiguration, Latencies
from capsim.measure.latency import user_latencies
from capsim.workload.requests import Requests
from tests.metamorphic.fleets import TIMES, fleets, scaled, served, slower, workloads

LATENCIES = ("network", "gateway", "tokenization", "detokenization", "stream_flush")


def stretched(fleet: FleetConfiguration, factor: float) -> FleetConfiguration:
    return replace(
        fleet,
        latencies=Latencies(**scaled(fleet.latencies, factor, LATENCIES)),
        model_load_time=factor * fleet.model_load_time,
        failures=tuple(
            replace(failure, at=factor * failure.at, down_for=factor * (failure.down_for or 0.0))
            for failure in fleet.failures
        ),
    )


@settings(deadline=None)
@given(workloads, fleets, st.sampled_from([0.25, 0.5, 2.0, 8.0]))
def test_a_slower_clock_makes_every_time_longer_by_the_same_factor(
    requests: Requests, fleet: FleetConfiguration, factor: float
) -> None:
    """Arrivals, steps, latencies and failures times k: every time of every request is k times what it was."""
    usual = served(requests, fleet)
    slow = served(
        replace(requests, arrival=factor * requests.arrival), stretched(fleet, factor), cost=slower(factor)
    )
    for name in TIMES:
        expected = factor * getattr(usual.requests, name)
        assert np.array_equal(getattr(slow.requests, name), expected, equal_nan=True), name
    assert np.array_equal(slow.requests.outcome, usual.requests.outcome)
    assert np.array_equal(user_latencies(slow).ttft, factor * user_latencies(usual).ttft)


@settings(deadline=None)
@given(workloads, fleets, st.sampled_from([0.125, 1.0, 64.0]))
def test_a_later_start_changes_no_latency(
    requests: Requests, fleet: FleetConfiguration, later: float
) -> None:
    usual = served(requests, fleet)
    failures = tuple(replace(failure, at=failure.at + later) for failure in fleet.failures)
    late = served(replace(requests, arrival=requests.arrival + later), replace(fleet, failures=failures))
    for name in ("arrival", "submitted", "scheduled", "first_token", "finish"):
        expected = getattr(usual.requests, name) + later
        assert np.array_equal(getattr(late.requests, name), expected, equal_nan=True), name
    assert np.array_equal(late.requests.outcome, usual.requests.outcome)


@settings(deadline=None)
@given(workloads, fleets, st.sampled_from([0.125, 1.0]))
def test_latency_outside_the_engines_is_added_to_what_users_see(
    requests: Requests, fleet: FleetConfiguration, more: float
) -> None:
    """Without failures, which happen at a time of their own."""
    fleet = replace(fleet, failures=())
    usual = user_latencies(served(requests, fleet))
    latencies = replace(fleet.latencies, network=fleet.latencies.network + more)
    far = user_latencies(served(requests, replace(fleet, latencies=latencies)))
    assert far.ttft == pytest.approx(usual.ttft + 2 * more, rel=1e-12)  # there and back; sums of parts round
    assert np.array_equal(far.tpot, usual.tpot, equal_nan=True)
