"""Memory by bytes that Python and numpy ask for, which are the same on every machine: never by what a machine has."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from capsim.cost.linear import LinearCost
from capsim.engine import EngineConfiguration
from capsim.fleet.configuration import FleetConfiguration
from capsim.fleet.log import RunLog
from capsim.fleet.simulation import simulate
from capsim.measure.objectives import Objectives
from capsim.measure.summary import summarize
from capsim.workload.requests import Requests

ENGINE = EngineConfiguration(30_000, max_num_seqs=256)
COST = LinearCost(base=5.5e-3, per_prefill_token=3.2e-5, per_context_token=3.5e-8)
COLUMNS = 350
"""Bytes a request: 13 columns of up to 8 bytes, and up to three leaps of 80, which grow by an eighth at a time."""
SUMMARY = 200
"""Bytes a request: some 12 columns of 8 bytes while a summary is made, and never its 15 gaps between tokens at once."""


def requests(count: int) -> Requests:
    """Poisson arrivals at 10 a second, 512 tokens in and 256 out."""
    arrival = np.random.default_rng(1).exponential(0.1, count).cumsum()
    return Requests(arrival, np.full(count, 512), np.full(count, 256))


def peak_of_run(count: int) -> tuple[int, RunLog]:
    asked = requests(count)
    tracemalloc.start()
    try:
        log = simulate(asked, FleetConfiguration(1), ENGINE, COST)
        return tracemalloc.get_traced_memory()[1], log
    finally:
        tracemalloc.stop()


def peak_of_summary(log: RunLog) -> int:
    tracemalloc.start()
    try:
        summarize(log, Objectives(()))
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_run_keeps_columns_and_no_objects_of_requests_that_have_ended() -> None:
    """20,000 requests more cost their columns; what else there is does not grow."""
    (small, _), (large, log) = peak_of_run(20_000), peak_of_run(40_000)
    assert len(log.leaps.start) <= 3 * 40_000
    assert (large - small) / 20_000 < COLUMNS


@pytest.mark.parametrize("count", [20_000])
def test_a_summary_needs_memory_in_proportion(count: int) -> None:
    """No array of all steps and no sorted copy of it is made for each figure."""
    logs = [peak_of_run(size)[1] for size in (count, 2 * count)]
    small, large = (peak_of_summary(log) for log in logs)
    assert (large - small) / count < SUMMARY
