from __future__ import annotations

import math

import numpy as np
import pytest

from capsim.fleet.log import Outcome
from capsim.measure.latency import TtftParts, engine_latencies, failed, user_latencies
from tests.measure.run_logs import request, run_log, served, two_requests


def test_the_user_sees_what_lies_around_the_engine() -> None:
    user = user_latencies(two_requests())
    assert user.ttft.tolist() == [2.25, 1.75]
    assert user.tpot[0] == 0.625
    assert user.e2e.tolist() == [3.5, 1.75]


def test_the_engine_sees_from_its_queue_to_its_steps() -> None:
    engine = engine_latencies(two_requests())
    assert engine.ttft.tolist() == [1.125, 0.625]
    assert engine.tpot[0] == 0.625
    assert engine.e2e.tolist() == [2.375, 0.625]


def test_one_token_has_no_time_per_output_token() -> None:
    log = two_requests()
    assert math.isnan(user_latencies(log).tpot[1])
    assert math.isnan(engine_latencies(log).tpot[1])


@pytest.mark.parametrize("outcome", [Outcome.REJECTED, Outcome.LOST, Outcome.UNFINISHED])
def test_failed_requests_are_infinite(outcome: Outcome) -> None:
    log = two_requests(
        request(2.0, outcome=outcome, output=1), request(2.5, outcome=outcome, submitted=3.0, first_token=4.0)
    )
    assert failed(log).tolist() == [False, False, True, True]
    for latencies in (user_latencies(log), engine_latencies(log)):
        for metric in ("ttft", "tpot", "e2e"):
            assert latencies.of(metric)[2:].tolist() == [math.inf, math.inf]


def test_parts_of_ttft_by_hand() -> None:
    parts = TtftParts(two_requests())
    assert parts.network_and_gateway.tolist() == [0.375, 0.375]
    assert parts.tokenization.tolist() == [0.5, 0.5]
    assert parts.cold_state.tolist() == [0.0, 0.0]
    assert parts.queue.tolist() == [0.125, 0.125]
    assert parts.prefill.tolist() == [1.0, 0.5]
    assert parts.stream_out.tolist() == [0.25, 0.25]
    assert parts.total.tolist() == user_latencies(two_requests()).ttft.tolist()


def test_a_retry_is_cold_state() -> None:
    log = run_log([served(0.0, 6.0, 7.0, 7.0, submitted=5.0, output=1, attempts=2), request(1.0)], [])
    parts = TtftParts(log)
    assert parts.cold_state[0] == 5.0 - 0.875
    assert parts.total[0] == 7.0 + 0.25
    assert math.isnan(parts.total[1])


def test_rounding_is_no_cold_state() -> None:
    arrival = 0.1 + np.arange(50) / 7
    log = run_log(
        [served(time, time + 1, time + 2, time + 3, submitted=time + 0.875) for time in arrival], []
    )
    assert not TtftParts(log).cold_state.any()


def test_identities_hold_for_any_times() -> None:
    rng = np.random.default_rng(3)
    stages = np.cumsum(rng.exponential(size=(200, 5)), axis=1)
    outputs = rng.integers(2, 50, 200)
    log = run_log(
        [
            served(row[0], row[2], row[3], row[4], submitted=row[1] + 0.875, output=int(output))
            for row, output in zip(stages, outputs, strict=True)
        ],
        [],
    )
    user, parts = user_latencies(log), TtftParts(log)
    assert (user.ttft == parts.total).all()
    # A handful of additions of numbers below 100 round by less than 1e-12.
    assert user.ttft == pytest.approx(log.requests.first_token - log.requests.arrival + 0.25, abs=1e-12)
    assert user.e2e == pytest.approx(user.ttft + (outputs - 1) * user.tpot, abs=1e-12)
    assert user.e2e == pytest.approx(log.requests.finish - log.requests.arrival + 0.25, abs=1e-12)
