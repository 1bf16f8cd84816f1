"""Does this installation compute what it should? A queue against its formula, and a plan against its known answer."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from statistics import fmean, stdev

import numpy as np

from capsim.catalog.data import data_path
from capsim.cost import ConstantCost
from capsim.engine import EngineConfiguration
from capsim.fleet.configuration import FleetConfiguration
from capsim.fleet.simulation import simulate
from capsim.plan.deployment import deploy
from capsim.plan.planner import make_plan
from capsim.plan.runner import Runner
from capsim.scenario import load
from capsim.workload.requests import Requests

SCENARIO, ANSWER = ("self_test", "scenario.yaml"), ("self_test", "answer.json")
"""Shipped; ``python -m tests.golden`` writes the answer anew."""
LOAD = 0.5
"""Of the queue: share of the time in which it serves."""
REPLICATIONS, REQUESTS = 12, 2_000
CONFIDENCE = 0.999
"""Of the interval that must hold the formula's figure; with fixed seeds it holds it for good, or a defect is there."""
SAME = 1e-6
"""Relative difference of a figure that processors may have, which round the last digit of a logarithm differently."""


@dataclass(frozen=True)
class SelfTest:
    """One figure that is known, and what was computed.

    Attributes:
        name: of the figure.
        expected: what it should be.
        found: what it is.
        tolerance: how far apart they may be; 0 where they differ by rounding alone.
    """

    name: str
    expected: float
    found: float
    tolerance: float = 0.0

    @property
    def passed(self) -> bool:
        """Whether the figure is the known one."""
        return math.isclose(self.found, self.expected, rel_tol=SAME, abs_tol=self.tolerance)


def self_tests() -> list[SelfTest]:
    """All of them.

    Raises:
        BadInput: the shipped scenario is damaged.
        OSError: the shipped answer is not there.
    """
    return [queue_test(), *plan_tests()]


def queue_test() -> SelfTest:
    """Mean wait of an M/D/1 queue with service of a second: ``load / (2 (1 - load))`` (Pollaczek and Khinchine).

    A replica with one sequence at a time, and prompts and outputs of one token, is that queue.
    """
    streams = np.random.SeedSequence(1).spawn(REPLICATIONS)
    waits = [_mean_wait(np.random.default_rng(stream)) for stream in streams]
    return SelfTest("queue: M/D/1 wait, s", LOAD / (2 * (1 - LOAD)), fmean(waits), _half_width(waits))


def _mean_wait(random: np.random.Generator) -> float:
    arrival = random.exponential(1 / LOAD, REQUESTS).cumsum()
    one = np.ones(REQUESTS, np.int64)
    engine = EngineConfiguration(1 << 30, max_num_seqs=1)
    rows = simulate(Requests(arrival, one, one), FleetConfiguration(1), engine, ConstantCost(1.0)).requests
    settled = slice(REQUESTS // 10, None)  # the queue was empty at the start
    return float((rows.scheduled - rows.submitted)[settled].mean())


def _half_width(values: list[float]) -> float:
    from scipy.special import stdtrit

    quantile = float(stdtrit(len(values) - 1, 0.5 + CONFIDENCE / 2))
    return quantile * stdev(values) / math.sqrt(len(values))


def plan_tests() -> list[SelfTest]:
    """The shipped self-test scenario against its shipped answer."""
    answer = json.loads(data_path(*ANSWER).read_text(encoding="utf-8"))
    return [SelfTest(f"plan: {name}", answer[name], found) for name, found in planned_answer().items()]


def planned_answer() -> dict[str, float]:
    """What the plan of the self-test scenario finds here."""
    plan = make_plan(Runner(deploy(load(data_path(*SCENARIO)))))
    return {
        "replicas": plan.replicas.chosen.replicas,
        "operating point, requests/s": plan.operating_point.rate,
        "goodput, requests/s": plan.goodput,
    }
