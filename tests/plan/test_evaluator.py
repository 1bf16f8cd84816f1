"""How many replications a verdict takes, on a runner whose samples are made up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from capsim.plan.deployment import Deployment
from capsim.plan.evaluator import Evaluator
from capsim.plan.experiment import Experiment
from capsim.plan.runner import Runner
from capsim.plan.verdict import Verdict

UNSURE = (0.93, 0.97)
"""Attained shares that scatter around the required 0.95: undecided however many there are."""
CLEAR = {"pass": (0.990, 0.991), "fail": (0.800, 0.801), "unsure": UNSURE}


class MadeUp(Runner):
    """Samples by replicas: 1 passes, 2 fails, 3 stays undecided."""

    def run(self, stage: str, experiments: Sequence[Experiment]) -> list[dict[str, Any]]:  # noqa: ARG002
        return [self._sample(experiment) for experiment in experiments]

    def _sample(self, experiment: Experiment) -> dict[str, Any]:
        kind = {1: "pass", 2: "fail", 3: "unsure"}[experiment.replicas]
        share = CLEAR[kind][experiment.replication % 2]
        gate = {
            "name": "ttft p95",
            "limit": 0.4,
            "observed": 0.3,
            "attained": share,
            "required": 0.95,
            "passed": share >= 0.95,
        }
        return {"gates": [gate], "backlog_grows": False}


@pytest.fixture
def evaluator(deployment: Deployment) -> Evaluator:
    return Evaluator(MadeUp(deployment), saturated_rate=100.0, budget=8)


def test_a_clear_verdict_takes_one_look_and_an_unclear_one_the_budget(evaluator: Evaluator) -> None:
    passing, failing, unsure = evaluator.points("", [(1, 5.0), (2, 5.0), (3, 5.0)])
    assert [point.verdict for point in (passing, failing, unsure)] == [
        Verdict.PASS,
        Verdict.FAIL,
        Verdict.UNDECIDED,
    ]
    assert [len(point.samples) for point in (passing, failing, unsure)] == [4, 4, 8]


def test_where_all_must_pass_one_failure_is_enough(evaluator: Evaluator) -> None:
    failing, unsure = evaluator.all_pass("", [(2, 5.0), (3, 5.0)])
    assert (failing.verdict, len(unsure.samples)) == (Verdict.FAIL, 4)


def test_a_point_that_was_left_early_is_taken_up_again(evaluator: Evaluator) -> None:
    """Without a reserve, the full fleet of one size is the fleet with a replica missing of the next size."""
    evaluator.all_pass("", [(2, 5.0), (3, 5.0)])
    unsure, passing = evaluator.all_pass("", [(3, 5.0), (1, 5.0)])
    assert passing.verdict is Verdict.PASS
    assert len(unsure.samples) == 8


def test_confirmation_takes_the_whole_budget(evaluator: Evaluator) -> None:
    assert len(evaluator.points("", [(1, 5.0)])[0].samples) == 4
    assert len(evaluator.confirm("", [(1, 5.0)])[0].samples) == 8
