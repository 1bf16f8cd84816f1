"""What becomes of a run when the fleet is another, or is taken apart."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from capsim.cost.constant import ConstantCost
from capsim.engine import EngineConfiguration
from capsim.fleet import Failure, FleetConfiguration, FlowControl, Outcome
from capsim.fleet.simulation import simulate
from capsim.measure.latency import user_latencies
from capsim.workload.requests import Requests
from tests.analytic.interval import Interval
from tests.fleet.workload import poisson
from tests.metamorphic.fleets import ENGINE, fleets, same, served, workloads

SERVER = EngineConfiguration(1 << 20, max_num_seqs=1)


def part(requests: Requests, rows: np.ndarray | slice) -> Requests:
    priority = None if requests.priority is None else requests.priority[rows]
    return Requests(requests.arrival[rows], requests.prompt[rows], requests.output[rows], priority=priority)


@settings(deadline=None)
@given(workloads, st.integers(2, 4))
def test_a_fleet_in_turn_is_its_replicas_apart(requests: Requests, replicas: int) -> None:
    """Round robin, no failures: replica i serves every n-th request as if it were alone with them."""
    whole = served(requests, FleetConfiguration(replicas))
    for replica in range(min(replicas, len(requests))):
        rows = slice(replica, None, replicas)
        assert same(whole, served(part(requests, rows), FleetConfiguration(1)), rows)


@settings(deadline=None)
@given(workloads, fleets, st.integers(1, 3))
def test_replicas_that_are_down_from_the_start_are_as_if_not_there(
    requests: Requests, fleet: FleetConfiguration, dead: int
) -> None:
    """Of a fleet in turn: it passes over them."""
    fleet = replace(fleet, router="round_robin", failures=())
    requests = replace(requests, arrival=requests.arrival + 1.0)
    last = tuple(Failure(fleet.replicas + number, at=0.0) for number in range(dead))
    more = served(requests, replace(fleet, replicas=fleet.replicas + dead, failures=last))
    # Whose turn it is after the dead ones is the first again, as in the fleet without them.
    assert same(served(requests, fleet), more)


@settings(deadline=None)
@given(workloads, st.integers(1, 4))
def test_one_more_server_makes_nobody_later(requests: Requests, replicas: int) -> None:
    """Of replicas with one request at a time behind one queue, which is what this holds of.

    Under common random numbers a request begins no later with one more server (Kiefer and Wolfowitz), so that no
    attainment falls. It is not so of batches: with round robin one more replica sends each request elsewhere, and one
    that was alone may meet a long prompt.
    """
    fewer, more = (
        simulate(requests, FleetConfiguration(count, gateway=FlowControl(1)), SERVER, ConstantCost(2.0**-6))
        for count in (replicas, replicas + 1)
    )
    assert (more.requests.scheduled <= fewer.requests.scheduled).all()
    assert (user_latencies(more).e2e <= user_latencies(fewer).e2e).all()


@settings(deadline=None)
@given(workloads, st.integers(0, 4), st.integers(1, 3))
def test_a_longer_queue_turns_fewer_away_where_all_take_as_long(
    requests: Requests, queue: int, more: int
) -> None:
    """Not so with unequal service: who is let in may be long, and keep out two that are short."""
    equal = replace(requests, prompt=np.ones_like(requests.prompt), output=np.full_like(requests.output, 8))
    short, long = (
        simulate(equal, FleetConfiguration(2, gateway=FlowControl(1, places)), SERVER, ConstantCost(2.0**-6))
        for places in (queue, queue + more)
    )
    assert (long.requests.outcome == Outcome.REJECTED).sum() <= (
        short.requests.outcome == Outcome.REJECTED
    ).sum()


@settings(deadline=None)
@given(workloads, fleets, st.integers(2, 50))
def test_memory_that_nobody_uses_changes_nothing(
    requests: Requests, fleet: FleetConfiguration, times: int
) -> None:
    """Without caching: blocks that hold old prompts are used by whoever finds them."""
    engine = replace(ENGINE, enable_prefix_caching=False, num_gpu_blocks=2000)  # all requests fit at once
    usual = served(requests, fleet, engine)
    assert (usual.requests.preemptions == 0).all()
    assert same(usual, served(requests, fleet, replace(engine, num_gpu_blocks=2000 * times)))


@settings(deadline=None)
@given(workloads, fleets, st.sampled_from([1, 2, 16, 128]))
def test_the_size_of_blocks_does_not_matter_where_memory_is_ample(
    requests: Requests, fleet: FleetConfiguration, block_size: int
) -> None:
    engine = replace(ENGINE, enable_prefix_caching=False, num_gpu_blocks=20_000)
    assert same(
        served(requests, fleet, engine), served(requests, fleet, replace(engine, block_size=block_size))
    )


def test_a_fleet_whose_requests_are_thinned_at_random_is_one_replica() -> None:
    """Poisson arrivals at n times the rate, each sent to a replica by lot, are n Poisson arrivals at the rate.

    By interval, 99.9 % over 20 replications: the mean TTFT of the n parts over that of a replica alone is 1. In turn, a
    replica's arrivals come more evenly than by lot, and the interval tells that.
    """
    replicas, rate, count = 3, 3.0, 400
    by_lot, in_turn = [], []
    for seed in range(20):
        lots = np.random.default_rng([seed, 1]).integers(replicas, size=replicas * count)
        thick = poisson(replicas * count, replicas * rate, seed)
        parts = [served(part(thick, lots == replica), FleetConfiguration(1)) for replica in range(replicas)]
        alone = user_latencies(served(poisson(count, rate, seed + 1000), FleetConfiguration(1))).ttft.mean()
        ttft = np.concatenate([user_latencies(log).ttft for log in parts]).mean()
        by_lot.append(float(ttft / alone))
        in_turn.append(float(user_latencies(served(thick, FleetConfiguration(replicas))).ttft.mean() / ttft))
    assert Interval.of(by_lot).contains(1.0)
    assert Interval.of(by_lot).half_width < 0.1  # half of what separates in turn from by lot
    assert Interval.of(in_turn).mean + Interval.of(in_turn).half_width < 0.9
