"""What measure says about a real simulation, not about a log written by hand."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capsim.cost.linear import LinearCost
from capsim.engine.configuration import EngineConfiguration
from capsim.fleet.configuration import Failure, FleetConfiguration, Latencies
from capsim.fleet.log import RunLog
from capsim.fleet.simulation import simulate
from capsim.measure.conservation import check_conservation
from capsim.measure.kv_cache import KvCache
from capsim.measure.objectives import LatencyObjective, Objectives
from capsim.measure.steady import backlog_drift
from capsim.measure.summary import summarize
from capsim.workload.arrivals import PoissonArrivals
from capsim.workload.demand import SyntheticDemand
from capsim.workload.lengths import GeometricLength, LognormalLength
from capsim.workload.prefixes import Prefixes
from capsim.workload.requests import Requests
from capsim.workload.shared_prefixes import SharedPrefixes
from tests.strategies import Case, cases

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


def shared_prefixes(case: Case) -> Prefixes:
    nodes = [node for path in case.paths for node in path]
    starts = np.concatenate([[0], np.cumsum([len(path) for path in case.paths])]).astype(np.int64)
    numbers, ends = np.array(nodes, dtype=np.int64).reshape(-1, 2).T
    return Prefixes(starts, numbers, ends)


@settings(deadline=None)
@given(cases(), st.booleans())
def test_every_token_of_a_prompt_is_found_or_computed(case: Case, fails: bool) -> None:
    """Small pools, shared prefixes, preemptions; with and without a replica that dies among the arrivals."""
    arrival, prompt, output = (np.array(column) for column in zip(*case.requests, strict=True))
    requests = Requests(arrival.astype(float), prompt, output, shared_prefixes(case))
    blocks = case.usable_blocks + 1
    engine = EngineConfiguration(
        blocks,
        case.block_size,
        case.max_num_seqs,
        case.max_num_batched_tokens,
        reserve_full_prompt=case.reserve_full_prompt,
        enable_prefix_caching=case.enable_prefix_caching,
        watermark=case.watermark_blocks / blocks,
    )
    failures = (Failure(0, float(arrival[-1]) + 0.1, 0.5),) if fails else ()
    fleet = FleetConfiguration(1 + fails, failures=failures, model_load_time=0.1)
    log = simulate(requests, fleet, engine, COST)
    check_conservation(log)
    cache = KvCache.of(log, log.leaps, np.ones(len(arrival), dtype=bool))
    assert cache.hit_tokens <= cache.query_tokens
    assert cache.blocks.max <= case.usable_blocks
    assert cache.recomputed_tokens >= 0
    if not fails:
        computed = int(log.leaps.prefill_tokens.sum()) - len(log.resumed_gaps)
        served = cache.query_tokens - cache.hit_tokens + cache.recomputed_tokens
        assert computed == served


def test_a_smaller_pool_finds_less_of_shared_prefixes() -> None:
    demand = replace(DEMAND, prefix=SharedPrefixes(200, count=40))
    requests = demand.draw(20.0, 100.0, np.random.SeedSequence(1))
    assert requests.prefixes is not None
    hits = []
    for blocks in (300, 600, 40_000):
        engine = EngineConfiguration(num_gpu_blocks=blocks, enable_prefix_caching=True)
        log = simulate(requests, FleetConfiguration(2), engine, COST)
        summary = summarize(log, OBJECTIVES)
        cache, occupancy = summary.kv_cache, summary.occupancy
        hits.append(cache.hit_tokens)
        assert cache.warm_ttft is not None
        assert cache.cold_ttft is not None
        assert cache.warm_ttft.count + cache.cold_ttft.count == summary.counts.completed
        assert bool(cache.evictions) == (blocks < 40_000)
        assert (cache.blocks.mean, cache.blocks.max) == (occupancy.blocks_mean, occupancy.blocks_max)
        assert occupancy.blocks_max < blocks
    assert hits == sorted(hits)
    # The largest pool forgets nothing: a replica finds 12 whole blocks in all but the first use of a prefix.
    users = np.flatnonzero(np.diff(requests.prefixes.starts))
    first_uses = len(
        set(zip(log.requests.replica[users].tolist(), requests.prefixes.nodes.tolist(), strict=True))
    )
    assert hits[-1] == (len(users) - first_uses) * 12 * 16


def test_measuring_loads_no_heavy_library() -> None:
    modules = "summary, conservation, steady, gates"
    code = (
        f"import sys; from capsim.measure import {modules}; print([m for m in sys.modules if 'scipy' in m])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
