"""Queues with several servers that a fleet becomes when its gateway gives each replica one request at a time.

A replica with one request at a time is a server, and the gateway's queue is the queue before all servers:

- *M/M/c*: the queue is unlimited and outputs are geometric in short steps. A geometric length of mean m has the squared
  coefficient of variation 1 - 1/m, where an exponential one has 1; as the wait of M/G/c is about (1 + scv)/2 that of
  M/M/c (Lee and Longton), the wait is short by 1/(2m) of itself.
- *Erlang B*: no request may wait. The share that is turned away depends on the mean of the service alone, so nothing is
  lost by working in steps.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from capsim.cost.constant import ConstantCost
from capsim.fleet import FleetConfiguration, FlowControl, Outcome, RequestColumns
from capsim.fleet.simulation import simulate
from capsim.workload.requests import Requests
from tests.analytic.closed_forms import (
    ONE_AT_A_TIME,
    QUANTUM,
    ClosedForm,
    Lengths,
    fixed,
    geometric,
    middle,
)

MEAN = 1024
"""Steps of the mean service: a second."""
STEP = ConstantCost(QUANTUM)


def erlang_b(servers: int, offered: float) -> float:
    """Share of the requests that find all servers busy, by Erlang's recursion over the number of servers."""
    share = 1.0
    for number in range(1, servers + 1):
        share = offered * share / (number + offered * share)
    return share


def erlang_c(servers: int, offered: float) -> float:
    """Share of the requests that wait, where all may."""
    blocked = erlang_b(servers, offered)
    return blocked / (1 - offered / servers * (1 - blocked))


def served(
    random: np.random.Generator,
    count: int,
    offered: float,
    output: NDArray[np.int64],
    servers: int,
    queue: int | None,
) -> RequestColumns:
    """Serve Poisson arrivals of one-token prompts, `offered` of them in a mean service, by servers behind one queue."""
    arrival = random.exponential(MEAN * QUANTUM / offered, count).cumsum()
    requests = Requests(arrival, np.ones(count, np.int64), output)
    fleet = FleetConfiguration(servers, gateway=FlowControl(1, queue))
    return simulate(requests, fleet, ONE_AT_A_TIME, STEP).requests


def time_in_system(servers: int, load: float, count: int) -> ClosedForm:
    """M/M/c: a service, and with probability `erlang_c` a wait of ``1 / (servers - offered)`` services."""
    offered = load * servers
    service = MEAN * QUANTUM
    wait = erlang_c(servers, offered) * service / (servers - offered)

    def measure(random: np.random.Generator) -> float:
        rows = served(random, count, offered, geometric(MEAN)(random, count), servers, None)
        return float(middle(rows.finish - rows.arrival).mean())

    return ClosedForm(
        f"M/M/{servers} time in system, load {load:g}", service + wait, measure, wait / (2 * MEAN)
    )


def turned_away(servers: int, offered: float, lengths: Lengths, count: int, name: str) -> ClosedForm:
    """Erlang B, whatever the distribution of the service."""

    def measure(random: np.random.Generator) -> float:
        rows = served(random, count, offered, lengths(random, count), servers, 0)
        return float(middle((rows.outcome == Outcome.REJECTED).astype(float)).mean())

    return ClosedForm(name, erlang_b(servers, offered), measure)


FLEET_FORMS = (
    time_in_system(3, 0.6, 12_000),
    turned_away(4, 3.0, geometric(MEAN), 12_000, "Erlang B, 4 replicas, geometric, 3 offered"),
    turned_away(4, 3.0, fixed(MEAN), 8_000, "Erlang B, 4 replicas, fixed, 3 offered"),
)
