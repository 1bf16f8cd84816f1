"""Queues with exact solutions that an engine becomes when its step cost is simple enough.

A prompt of one token is computed in one step, which also makes the first output token: a request with an output of g
tokens takes g steps, one of prefill and g - 1 of decode. From there:

- *M/D/1*, *M/G/1*: one sequence at a time and steps of a second. A request that comes to an idle engine starts at once,
  otherwise when the one before it ends, so the service time is its output exactly.
- *M/G/infinity*: everybody at once and steps of a second. A request waits for the end of the step in flight, which is
  uniform over the step as long as the engine is never idle, then takes its output: half a second more than its service.
- *Processor sharing*: everybody at once and a step of b decodes takes b times `QUANTUM`. Each of b requests gets 1/b of
  the engine; the service time is (g - 1) quanta.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from capsim.cost.constant import ConstantCost
from capsim.cost.linear import LinearCost
from capsim.cost.step import StepCost
from capsim.engine import EngineConfiguration
from capsim.fleet import FleetConfiguration, RequestColumns
from capsim.fleet.simulation import simulate
from capsim.workload.requests import Requests
from tests.analytic.interval import Interval

Floats = NDArray[np.float64]
Lengths = Callable[[np.random.Generator, int], NDArray[np.int64]]

SECOND = ConstantCost(1.0)
QUANTUM = 2.0**-10
SHARED = LinearCost(per_decode=QUANTUM)
ONE_AT_A_TIME = EngineConfiguration(1 << 50, max_num_seqs=1)
ALL_AT_ONCE = EngineConfiguration(1 << 50, max_num_seqs=1 << 40, max_num_batched_tokens=1 << 50)
REPLICATIONS = 20


@dataclass(frozen=True)
class ClosedForm:
    """A figure that theory gives, and one replication of its measurement.

    Attributes:
        name: the queue and the figure.
        value: by the formula, seconds or requests.
        measure: one replication, from its own random stream.
        bias: how far the engine's figure may be off the formula because it works in steps.
    """

    name: str
    value: float
    measure: Callable[[np.random.Generator], float]
    bias: float = 0.0

    @cache  # noqa: B019  several tests look at one estimate, and the forms live as long as the process
    def estimate(self) -> Interval:
        """The measured figure over independent replications with fixed seeds."""
        streams = np.random.SeedSequence(20240229).spawn(REPLICATIONS)
        return Interval.of([self.measure(np.random.default_rng(stream)) for stream in streams])


def fixed(length: int) -> Lengths:
    return lambda random, count: np.full(count, length)  # noqa: ARG005


def geometric(mean: float) -> Lengths:
    return lambda random, count: random.geometric(1 / mean, count)


def uniform(longest: int) -> Lengths:
    return lambda random, count: random.integers(1, longest, count, endpoint=True)


def hyperexponential(mean: float) -> Lengths:
    """Four of five are half the mean, one is three times it: the squared coefficient of variation is 3."""
    return lambda random, count: random.geometric(
        1 / np.where(random.random(count) < 0.8, mean / 2, mean * 3)
    )


def served(
    random: np.random.Generator,
    count: int,
    rate: float,
    output: NDArray[np.int64],
    engine: EngineConfiguration,
    cost: StepCost,
) -> RequestColumns:
    """Serve Poisson arrivals of one-token prompts."""
    arrival = random.exponential(1 / rate, count).cumsum()
    requests = Requests(arrival, np.ones(count, np.int64), output)
    return simulate(requests, FleetConfiguration(1), engine, cost).requests


def middle(values: Floats) -> Floats:
    """Without the first and the last tenth: the queue was empty before the one and sees no arrivals after the other."""
    tenth = len(values) // 10
    return values[tenth:-tenth]


def waiting(load: float, lengths: Lengths, mean: float, square: float, count: int, name: str) -> ClosedForm:
    """Pollaczek and Khinchine: the mean wait is ``rate * E[S^2] / (2 (1 - load))``; for M/D/1 too."""
    rate = load / mean

    def measure(random: np.random.Generator) -> float:
        rows = served(random, count, rate, lengths(random, count), ONE_AT_A_TIME, SECOND)
        return float(middle(rows.scheduled - rows.submitted).mean())

    return ClosedForm(name, rate * square / (2 * (1 - load)), measure)


def number(load: float, lengths: Lengths, mean: float, count: int, name: str) -> ClosedForm:
    """Requests in an M/G/infinity system: ``rate * (E[S] + 1/2)``, whatever the distribution of S.

    The engine is idle with probability ``exp(-load)``, which must be negligible. Averaged over the time between the
    arrivals of the first and the last tenth of the requests; services are far shorter than a tenth of the run.
    """
    rate = load / mean

    def measure(random: np.random.Generator) -> float:
        rows = served(random, count, rate, lengths(random, count), ALL_AT_ONCE, SECOND)
        start, end = rows.arrival[count // 10], rows.arrival[-count // 10]
        inside = np.clip(rows.finish, start, end) - np.clip(rows.arrival, start, end)
        return float(inside.sum() / (end - start))

    return ClosedForm(name, rate * (mean + 0.5), measure)


def sharing(load: float, lengths: Lengths, mean: float, count: int, name: str) -> ClosedForm:
    """Egalitarian processor sharing: the mean time in system is ``E[S] / (1 - load)``, whatever the distribution.

    A request joins with a delay: it waits for the end of the step in flight and spends one more on its prompt. Both
    last as long as the batch it meets, ``load / (1 - load)`` quanta on average, and those already there gain what it
    loses, so that the mean is off by two such steps at most: ``2 load / mean`` of the value.
    """
    service = mean * QUANTUM

    def measure(random: np.random.Generator) -> float:
        output = lengths(random, count) + 1  # the first token is the prompt's
        rows = served(random, count, load / service, output, ALL_AT_ONCE, SHARED)
        return float(middle(rows.finish - rows.submitted).mean())

    bias = 2 * QUANTUM * load / (1 - load)
    return ClosedForm(name, service / (1 - load), measure, bias)


CLOSED_FORMS = (
    waiting(0.5, fixed(1), 1, 1, 20_000, "M/D/1 wait, load 0.5"),
    waiting(0.7, fixed(1), 1, 1, 30_000, "M/D/1 wait, load 0.7"),
    waiting(0.5, geometric(20), 20, 2 * 20**2 - 20, 40_000, "M/G/1 wait, geometric, load 0.5"),
    number(30, fixed(20), 20, 10_000, "M/G/infinity number, fixed"),
    number(30, uniform(39), 20, 10_000, "M/G/infinity number, uniform"),
    number(30, geometric(20), 20, 10_000, "M/G/infinity number, geometric"),
    sharing(0.5, fixed(2000), 2000, 10_000, "processor sharing, fixed, load 0.5"),
    sharing(0.5, geometric(2000), 2000, 20_000, "processor sharing, geometric, load 0.5"),
    sharing(0.5, hyperexponential(2000), 2000, 20_000, "processor sharing, hyperexponential, load 0.5"),
)
