from __future__ import annotations

import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from subprocess import run
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from capsim.cost import LinearCost
from capsim.fleet import FleetConfiguration
from capsim.fleet.simulation import simulate
from tests.loop.load import BLOCK, LOADS, Load, simulated_requests
from tests.loop.measured import figures
from tests.loop.outcome import FIGURES, KEPT, Outcome, kept, outcome_of, table
from tests.loop.simulated import simulated_figures
from tests.plain import plain_limits, plain_sequences
from tests.reference import ReferenceReplica

with_engine = pytest.mark.skipif(
    find_spec("vllm") is None,
    reason="vllm is not installed: no engine is measured. `.ci/engine` installs it and runs this",
)


@cache
def measured(attempt: int) -> Outcome:
    """The engine of this machine, measured once for all tests, in a process of its own."""
    with TemporaryDirectory() as folder:
        command = [sys.executable, "-W", "ignore", "-m", "tests.loop.measure", folder]
        run(command, check=True, cwd=Path(__file__).parents[2], start_new_session=True)
        outcome = outcome_of(Path(folder))
    print(f"\nMeasurement {attempt}", *table(outcome).text(), sep="\n")
    return outcome


@with_engine
def test_a_simulation_with_the_profile_just_measured_is_inside_the_target() -> None:
    """What is outside is measured anew: a defect is there again, other work of the machine elsewhere."""
    missed = measured(1).missed()
    if missed:
        print("outside, therefore measured again:", sorted(missed))
        missed &= measured(2).missed()
    assert not missed


@with_engine
def test_prefixes_are_found_and_starved_kv_preempts_as_simulated() -> None:
    """Counts: hits depend on which blocks are still there, preemptions on how sequences overlap in time."""
    for each in measured(1).runs:
        [load] = (load for load in LOADS if load.name == each.load)
        real, simulated = each.cached
        assert (real > 0) == (simulated > 0) == (load.service.caching)
        if load.service.caching:
            assert simulated == pytest.approx(real, rel=0.05)
        assert (each.preemptions[0] > 0) == (each.preemptions[1] > 0) == (load.service.blocks is not None)


@pytest.mark.parametrize("load", LOADS, ids=lambda load: load.name)
def test_a_client_and_a_simulation_define_each_figure_alike(load: Load) -> None:
    """The plain replica gives each token's time, as a client sees them; 2 %: ranks of weighted percentiles differ."""
    cost = LinearCost(base=0.015, per_prefill_token=0.0003, per_decode=0.0003)
    engine = load.service.configuration((load.service.blocks or 2048) * BLOCK)
    requests = simulated_requests(load.requests(2.0, 30.0))
    replica = ReferenceReplica(
        cost,
        **plain_limits(engine),
    )
    sequences = plain_sequences(requests)
    replica.run(list(sequences))
    seen = figures(requests.arrival, [np.array(sequence.token_times) for sequence in sequences])
    log = simulate(requests, FleetConfiguration(1), engine, cost)
    assert simulated_figures(log) == pytest.approx(seen, rel=0.02)


def test_the_comparison_that_is_shown_is_whole() -> None:
    outcome = kept()
    assert {run.load for run in outcome.runs} == {load.name for load in LOADS}
    assert all(outcome.spread(run.load, figure) > 0 for run in outcome.runs for figure in FIGURES), KEPT
