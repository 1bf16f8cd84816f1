from __future__ import annotations

from pathlib import Path

import pytest

from capsim.plan.deployment import Deployment, deploy
from capsim.plan.planner import Plan, make_plan
from capsim.plan.runner import Runner
from capsim.scenario import load

SMALL = Path(__file__).parent / "small.yaml"


@pytest.fixture(scope="session")
def deployment() -> Deployment:
    return deploy(load(SMALL))


@pytest.fixture(scope="session")
def plan(deployment: Deployment) -> Plan:
    return make_plan(Runner(deployment))
