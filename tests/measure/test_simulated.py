"""What measure says about a real simulation, not about a log written by hand."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from capsim.cost.linear import LinearCost
from capsim.engine.configuration import EngineConfiguration
from capsim.fleet.configuration import Failure, FleetConfiguration, Latencies
from capsim.fleet.log import RunLog
from capsim.fleet.simulation import simulate
from capsim.measure.conservation import check_conservation
from capsim.measure.objectives import LatencyObjective, Objectives
from capsim.measure.steady import backlog_drift
from capsim.measure.summary import summarize
from capsim.workload.arrivals import PoissonArrivals
from capsim.workload.demand import SyntheticDemand
from capsim.workload.lengths import GeometricLength, LognormalLength

DEMAND = SyntheticDemand(PoissonArrivals(), LognormalLength(300.0, 1.0, 2000), GeometricLength(80.0))
COST = LinearCost(base=0.008, per_prefill_token=2e-5, per_decode=5e-5, per_context_token=2e-8)
OBJECTIVES = Objectives((LatencyObjective("ttft", 95, 1.0), LatencyObjective("tpot", 95, 0.05)), 0.01)


def run(
    rate: float, blocks: int = 4000, *, failures: tuple[Failure, ...] = (), max_retries: int = 1
) -> RunLog:
    fleet = FleetConfiguration(
        2,
        latencies=Latencies(0.01, 0.002, 0.003, 0.001, 0.001),
        failures=failures,
        max_retries=max_retries,
        model_load_time=20.0,
    )
    requests = DEMAND.draw(rate, 100.0, np.random.SeedSequence(1))
    return simulate(requests, fleet, EngineConfiguration(num_gpu_blocks=blocks), COST)


@pytest.mark.parametrize("blocks", [4000, 250])
@pytest.mark.parametrize("failures", [(), (Failure(0, 30.0, 10.0), Failure(1, 70.0, None))])
@pytest.mark.parametrize("max_retries", [0, 2])
def test_simulations_conserve(blocks: int, failures: tuple[Failure, ...], max_retries: int) -> None:
    log = run(20.0, blocks, failures=failures, max_retries=max_retries)
    check_conservation(log)
    summary = summarize(log, OBJECTIVES)
    assert bool(summary.counts.preemptions) == (blocks == 250)
    assert bool(summary.counts.lost) == (bool(failures) and max_retries == 0)
    # Parts are summed one by one and as means: rounding only.
    assert sum(summary.ttft_parts.values()) == pytest.approx(summary.user.ttft.mean, rel=1e-9)
    assert (summary.ttft_parts["cold_state"] > 0) == (bool(failures) and max_retries > 0)


def test_goodput_approaches_the_offered_rate_below_the_knee() -> None:
    summary = summarize(run(10.0), OBJECTIVES)
    assert summary.passed
    # All is good; the last requests finish as long after the last arrival as the first did after the first.
    assert summary.goodput.requests == pytest.approx(summary.throughput.offered, rel=0.05)


def test_overload_grows_and_its_goodput_is_bounded_by_its_throughput() -> None:
    log = run(200.0, blocks=250)
    assert backlog_drift(log).grows
    assert not backlog_drift(run(20.0)).grows
    without_gates = summarize(log, Objectives(()))
    assert without_gates.goodput.requests < 0.8 * without_gates.throughput.offered


def test_measuring_loads_no_heavy_library() -> None:
    modules = "summary, conservation, steady, gates"
    code = (
        f"import sys; from capsim.measure import {modules}; print([m for m in sys.modules if 'scipy' in m])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
