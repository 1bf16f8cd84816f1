"""The course of a run says the same as its summary, in a bounded size."""

from __future__ import annotations

import json

import pytest

from capsim.plan.course import PERCENTS, course_result
from capsim.plan.deployment import Deployment
from capsim.plan.experiment import Experiment, Sample, measure, record

Found = tuple[dict[str, object], Sample]
DIGITS = 1e-5
"""Six digits are kept."""


def course(deployment: Deployment, experiment: Experiment) -> Found:
    log = record(deployment, experiment)
    sample = measure(deployment, experiment, log)
    return course_result(deployment, experiment, log, sample), sample


@pytest.fixture(scope="module")
def found(deployment: Deployment) -> Found:
    """More is offered than is served, so that a warm-up is cut."""
    return course(deployment, Experiment("resample", 2, rate=150.0, duration=20.0))


@pytest.mark.parametrize("metric", ["ttft", "tpot", "itl", "e2e"])
@pytest.mark.parametrize("percent", [50, 90, 95, 99])
def test_distributions_are_the_summarys(found: Found, metric: str, percent: int) -> None:
    kept, sample = found
    distribution = kept["distributions"][metric]  # type: ignore[index]
    assert distribution[PERCENTS.index(percent)] == pytest.approx(
        sample["user"][metric][f"p{percent}"], rel=DIGITS
    )


def test_the_warm_up_is_said_and_left_out(found: Found) -> None:
    kept, sample = found
    assert sample["counts"]["cut"] > 0
    assert kept["requests"] == sample["counts"]["offered"]
    assert kept["measured_from"] == sample["throughput"]["window_start"]


def test_parts_of_ttft_are_the_summarys_on_average(found: Found) -> None:
    kept, sample = found
    bands = kept["ttft_bands"]
    for part, expected in sample["ttft_parts"].items():
        total = sum(band["requests"] * band["parts"][part] for band in bands)  # type: ignore[attr-defined]
        assert total / sample["counts"]["completed"] == pytest.approx(expected, rel=DIGITS, abs=1e-12)


def test_a_longer_run_takes_no_more_room(deployment: Deployment) -> None:
    sizes = [
        len(json.dumps(course(deployment, Experiment("resample", 2, rate=60.0, duration=seconds))[0]))
        for seconds in (30.0, 240.0)
    ]
    assert sizes[1] < 1.2 * sizes[0]  # figures have more digits, there are no more of them
    assert sizes[1] < 30_000


def test_it_is_json_without_infinite_figures(deployment: Deployment) -> None:
    kept, _ = course(deployment, Experiment("saturation", 1, requests=300))
    assert json.loads(json.dumps(kept, allow_nan=False)) == kept
