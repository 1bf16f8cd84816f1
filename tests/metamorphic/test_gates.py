"""What becomes of verdicts when the gates are others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capsim.fleet import FleetConfiguration
from capsim.measure.goodput import good
from capsim.measure.latency import user_latencies
from capsim.measure.objectives import LatencyObjective, Objectives
from capsim.plan.deployment import deploy
from capsim.plan.planner import make_plan
from capsim.plan.runner import Runner
from capsim.scenario import load
from capsim.workload.requests import Requests
from tests.metamorphic.fleets import fleets, served, workloads

SMALL = Path(__file__).parents[1] / "plan" / "small.yaml"
SHORT = ("plan.duration=10s", "plan.replications=3", "plan.resolution=10%")

limits = st.integers(1, 200).map(lambda steps: steps / 64)


@settings(deadline=None)
@given(workloads, fleets, limits, limits, limits)
def test_a_tighter_limit_and_a_further_metric_let_no_request_in(
    requests: Requests, fleet: FleetConfiguration, ttft: float, tighter: float, e2e: float
) -> None:
    """A further percentile of one metric is another thing: of several the highest says what a good request is."""
    user = user_latencies(served(requests, fleet))
    loose = LatencyObjective("ttft", 95, ttft)
    inside = good(Objectives((loose,)), user)
    tight = good(Objectives((LatencyObjective("ttft", 95, min(ttft, tighter)),)), user)
    further = good(Objectives((loose, LatencyObjective("e2e", 95, e2e))), user)
    assert not (tight & ~inside).any()
    assert np.array_equal(further, inside & good(Objectives((LatencyObjective("e2e", 95, e2e),)), user))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_tighter_gate_never_needs_fewer_replicas(seed: int) -> None:
    """Nor does one more gate. The runs are the same, by common random numbers, and each verdict is stricter."""
    replicas = []
    for change in ("slo.ttft.p95=400ms", "slo.ttft.p95=150ms", "slo.e2e={p90: 3s}"):
        scenario = load(SMALL, (*SHORT, f"seed={seed}", change))
        replicas.append(make_plan(Runner(deploy(scenario))).replicas.chosen.replicas)
    usual, tighter, further = replicas
    assert tighter >= usual
    assert further >= usual
