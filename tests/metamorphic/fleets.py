"""Small fleets with dyadic times, so that what must be equal is equal to the last bit."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from capsim.cost.linear import LinearCost
from capsim.engine import EngineConfiguration
from capsim.fleet import Failure, FleetConfiguration, FlowControl, Latencies, RunLog
from capsim.fleet.simulation import simulate
from capsim.measure.conservation import check_conservation
from capsim.workload.requests import Requests
from tests.fleet.workload import requests_of

ENGINE = EngineConfiguration(num_gpu_blocks=200, max_num_seqs=6, max_num_batched_tokens=64, block_size=8)
WEIGHTS = {
    "base": 2.0**-6,
    "per_prefill_token": 2.0**-14,
    "per_decode": 2.0**-12,
    "per_context_token": 2.0**-18,
}
COST = LinearCost(**WEIGHTS)
LATENCIES = Latencies(network=2.0**-8, gateway=2.0**-9, detokenization=2.0**-10)
TIMES = ("arrival", "held", "submitted", "scheduled", "first_token", "finish", "service")

rows = st.lists(
    st.tuples(st.integers(0, 60).map(lambda tick: tick / 64), st.integers(1, 200), st.integers(1, 40)),
    min_size=1,
    max_size=40,
).map(sorted)
"""Arrival, prompt and output of requests, in order of arrival."""
workloads = rows.map(requests_of)

fleets = st.builds(
    FleetConfiguration,
    replicas=st.integers(1, 4),
    router=st.sampled_from(["round_robin", "least_outstanding"]),
    latencies=st.sampled_from([Latencies(), LATENCIES]),
    model_load_time=st.just(0.25),
    failures=st.sampled_from([(), (Failure(0, at=0.375, down_for=0.125),)]),
    gateway=st.sampled_from([None, FlowControl(3), FlowControl(2, 4)]),
)


def served(
    requests: Requests,
    fleet: FleetConfiguration,
    engine: EngineConfiguration = ENGINE,
    cost: LinearCost = COST,
) -> RunLog:
    log = simulate(requests, fleet, engine, cost)
    check_conservation(log)
    return log


def scaled(values: object, factor: float, names: tuple[str, ...]) -> dict[str, float]:
    return {name: factor * getattr(values, name) for name in names}


def slower(factor: float) -> LinearCost:
    """`COST`, of which every part takes `factor` times as long."""
    return LinearCost(**{name: factor * weight for name, weight in WEIGHTS.items()})


def same(left: RunLog, right: RunLog, rows: NDArray[np.int64] | slice = slice(None)) -> bool:
    """Whether the requests of both fared alike; of the left one only these rows are looked at."""
    return all(
        np.array_equal(getattr(left.requests, name)[rows], getattr(right.requests, name), equal_nan=True)
        for name in (*TIMES, "cached", "preemptions", "attempts", "outcome")
    )
