from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from capsim.fleet.simulation import simulate
from capsim.measure.latency import engine_latencies, user_latencies
from capsim.plan.deployment import Deployment
from capsim.plan.experiment import Experiment, fleet_of
from capsim.workload.requests import Requests


@dataclass(frozen=True)
class Alone:
    """One request alone on a replica: the best that a user can see.

    Attributes:
        lengths: which request of the demand: ``median`` or ``p95`` lengths.
        prompt, output: tokens.
        ttft, tpot, e2e: as the user observes them, seconds; tpot is None for one output token.
        engine_ttft: inside the engine, seconds.
    """

    lengths: str
    prompt: int
    output: int
    ttft: float
    tpot: float | None
    e2e: float
    engine_ttft: float


def baseline(deployment: Deployment) -> tuple[Alone, ...]:
    """Simulate one request alone, of median and of p95 lengths; lengths that cannot be served are left out."""
    requests = deployment.sample()
    lengths = (requests.prompt, requests.output)
    sizes = {
        name: [int(np.quantile(column, share, method="inverted_cdf")) for column in lengths]
        for name, share in (("median", 0.5), ("p95", 0.95))
    }
    return tuple(
        _alone(deployment, name, prompt, output)
        for name, (prompt, output) in sizes.items()
        if deployment.engine.admits(prompt, output)
    )


def _alone(deployment: Deployment, name: str, prompt: int, output: int) -> Alone:
    request = Requests(np.zeros(1), np.array([prompt]), np.array([output]))
    fleet = fleet_of(deployment, Experiment("alone", 1))
    log = simulate(request, fleet, deployment.engine, deployment.cost)
    user, engine = user_latencies(log), engine_latencies(log)
    tpot = float(user.tpot[0])
    return Alone(
        name,
        prompt,
        output,
        float(user.ttft[0]),
        None if np.isnan(tpot) else tpot,
        float(user.e2e[0]),
        float(engine.ttft[0]),
    )
