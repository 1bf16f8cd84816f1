"""What becomes of a run when its demand is written in another way."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from capsim.fleet import FleetConfiguration
from capsim.workload.azure import read_azure
from capsim.workload.priorities import PriorityMix
from capsim.workload.requests import Requests
from tests.metamorphic.fleets import ENGINE, fleets, same, served, workloads

HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens\n"


def line(time: int, prompt: int, output: int) -> str:
    """A row of a trace; time in units of 10 microseconds."""
    seconds, rest = divmod(time, 10**5)
    return f"2024-05-10 00:00:{seconds:02}.{rest:05}00,{prompt},{output}\n"


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 500), st.integers(1, 50)), min_size=2, max_size=30,
             unique_by=lambda row: row[0]),
    st.randoms(use_true_random=False),
)  # fmt: skip
def test_the_order_of_a_traces_rows_does_not_matter(
    tmp_path: Path, rows: list[tuple[int, int, int]], random: object
) -> None:
    """Rows have distinct times: of those at one time the first in the file is the first."""
    shuffled = list(rows)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    traces = []
    for order in (sorted(rows), shuffled):
        path = tmp_path / "trace.csv"
        lines = (
            f"2024-05-10 00:00:{time // 10**5:02}.{time % 10**5:05}00,{prompt},{output}\n"
            for time, prompt, output in order
        )
        path.write_text(HEADER + "".join(lines), encoding="utf-8")
        traces.append(read_azure(path))
    in_order, in_disorder = traces
    for name in ("arrival", "prompt", "output"):
        assert np.array_equal(getattr(in_order, name), getattr(in_disorder, name)), name


@settings(deadline=None)
@given(workloads, fleets, st.integers(-3, 3))
def test_requests_of_one_priority_are_served_in_turn(
    requests: Requests, fleet: FleetConfiguration, priority: int
) -> None:
    equal = replace(requests, priority=np.full(len(requests), priority))
    by_priority = replace(ENGINE, scheduling_policy="priority")
    assert same(served(requests, fleet), served(equal, fleet, by_priority))


@settings(deadline=None)
@given(workloads, fleets, st.data())
def test_only_the_order_of_priorities_matters(
    requests: Requests, fleet: FleetConfiguration, data: st.DataObject
) -> None:
    classes = data.draw(st.lists(st.integers(0, 3), min_size=len(requests), max_size=len(requests)))
    values = np.array(
        data.draw(st.lists(st.integers(-50, 50), min_size=4, max_size=4, unique=True).map(sorted))
    )
    by_priority = replace(ENGINE, scheduling_policy="priority")
    small = replace(requests, priority=np.array(classes))
    other = replace(requests, priority=values[np.array(classes)])
    assert same(served(small, fleet, by_priority), served(other, fleet, by_priority))


@pytest.mark.parametrize("seed", range(5))
def test_a_class_that_is_split_into_two_of_the_same_kind_stays_what_it_was(seed: int) -> None:
    """Shares are dyadic, so that their sums are exact."""
    whole = PriorityMix(((0, 0.75), (5, 0.25)))
    split = PriorityMix(((0, 0.5), (0, 0.25), (5, 0.125), (5, 0.125)))
    one, other = (mix.sample(500, np.random.default_rng(seed)) for mix in (whole, split))
    assert np.array_equal(one, other)
