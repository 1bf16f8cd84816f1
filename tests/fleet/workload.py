"""Small workloads and fleets for the tests of the fleet."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from capsim.cost.linear import LinearCost
from capsim.engine import EngineConfiguration
from capsim.fleet import Outcome, RunLog
from capsim.workload.requests import Requests

ENGINE = EngineConfiguration(num_gpu_blocks=2000, max_num_seqs=16, max_num_batched_tokens=512)
COST = LinearCost(base=2.0**-7, per_prefill_token=2.0**-16, per_decode=2.0**-14, per_context_token=2.0**-20)
"""Dyadic weights: times add up without rounding."""


def requests_of(rows: list[tuple[float, int, int]]) -> Requests:
    """Requests from rows of arrival, prompt, output."""
    arrival, prompt, output = zip(*rows, strict=True)
    return Requests(np.array(arrival, float), np.array(prompt, np.int64), np.array(output, np.int64))


def poisson(
    count: int,
    rate: float,
    seed: int,
    prompts: tuple[int, int] = (1, 400),
    outputs: tuple[int, int] = (1, 60),
) -> Requests:
    """Poisson arrivals, uniform lengths."""
    random = np.random.default_rng(seed)
    return Requests(
        random.exponential(1 / rate, count).cumsum(),
        random.integers(*prompts, count, endpoint=True),
        random.integers(*outputs, count, endpoint=True),
    )


def simultaneous(count: int, prompt: int, output: int) -> Requests:
    """Equal requests, for a closed loop that ignores their arrival."""
    return Requests(np.zeros(count), np.full(count, prompt), np.full(count, output))


lengths = st.lists(st.tuples(st.just(0.0), st.integers(1, 40), st.integers(1, 20)), min_size=1, max_size=25)
"""Rows of a closed loop's requests."""


def check_conservation(log: RunLog) -> None:
    """Each request ends once; KV goes back to 0; every token that a leap made is owed to somebody.

    A prefill's last chunk makes a token that no decode makes: the first one of an attempt, or the one with which a
    preempted sequence resumes.
    """
    rows = log.requests
    completed = rows.outcome == Outcome.COMPLETED
    assert np.array_equal(completed, ~np.isnan(rows.finish))
    assert np.all(rows.replica[completed] >= 0)
    assert np.all(rows.attempts[rows.outcome == Outcome.REJECTED] == 0)
    assert log.blocks_left == 0
    done = rows.finish[completed]
    assert np.all(rows.arrival[completed] <= rows.submitted[completed])
    assert np.all(rows.submitted[completed] <= rows.scheduled[completed])
    assert np.all(rows.scheduled[completed] < rows.first_token[completed])
    assert np.all(rows.first_token[completed] <= done)
    decoded = int((log.leaps.steps * log.leaps.decodes).sum())
    made = decoded + len(log.resumed_gaps) + int(completed.sum()) + log.lost_first_tokens
    assert made == int(rows.output[completed].sum()) + log.lost_tokens
