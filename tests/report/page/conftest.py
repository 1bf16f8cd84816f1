"""Results to draw, as the present version writes them: a small plan, runs of it, and a question without an answer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from capsim.errors import Infeasible
from capsim.plan.course import course_result
from capsim.plan.deployment import Deployment, deploy
from capsim.plan.experiment import measure, record
from capsim.plan.infeasible import infeasible_result
from capsim.plan.plan_result import plan_result
from capsim.plan.planner import make_plan, representative
from capsim.plan.run_result import run_result
from capsim.plan.runner import Runner
from capsim.plan.simulation import run_simulation
from capsim.report import Json
from capsim.report.page.document import page_html
from capsim.scenario import load

SMALL = Path(__file__).parents[2] / "plan" / "small.yaml"
QUICK = ("plan.duration=20s", "plan.replications=2", "plan.resolution=20%")
COMMAND = "capsim plan 'my service.yaml' --set demand.target=60/s"


@dataclass(frozen=True)
class Answer:
    """A result, the course of one run of it, and its page."""

    result: Json
    course: Json | None

    @property
    def page(self) -> str:
        return page_html(self.result, self.course, COMMAND)


@pytest.fixture(scope="session")
def deployment() -> Deployment:
    return deploy(load(SMALL, QUICK))


@pytest.fixture(scope="session")
def plan(deployment: Deployment) -> Answer:
    answer = make_plan(Runner(deployment))
    experiment = representative(answer)
    log = record(deployment, experiment)
    course = course_result(deployment, experiment, log, measure(deployment, experiment, log))
    return Answer(plan_result(answer), course)


def simulated(*changes: str, **load_: float) -> Answer:
    simulation = run_simulation(deploy(load(SMALL, (*QUICK, *changes))), **load_)  # type: ignore[arg-type]
    course = course_result(simulation.deployment, simulation.experiment, simulation.log, simulation.sample)
    return Answer(run_result(simulation), course)


@pytest.fixture(scope="session")
def run() -> Answer:
    """Two replicas, one of which fails on the way."""
    return simulated("fleet.replicas=2", "fleet.failures=[{replica: 0, at: 8s, down_for: 1s}]", rate=40.0)


@pytest.fixture(scope="session")
def overloaded() -> Answer:
    return simulated(rate=300.0, requests=600)


@pytest.fixture(scope="session")
def nothing_completed() -> Answer:
    """The only replica fails before anything arrives, and nobody repairs it."""
    return simulated("fleet.failures=[{replica: 0, at: 0s}]", rate=5.0, requests=40)


@pytest.fixture(scope="session")
def infeasible() -> Answer:
    scenario = load(SMALL, QUICK)
    error = Infeasible("weights need 150 GiB, 126 GiB are left", ("tensor_parallel_size 2", "fp8 weights"))
    return Answer(infeasible_result(scenario, error), None)


@pytest.fixture(params=["plan", "run", "overloaded", "nothing_completed", "infeasible"])
def answer(request: pytest.FixtureRequest) -> Answer:
    found: Answer = request.getfixturevalue(request.param)
    return found
