from __future__ import annotations

import numpy as np
import pytest

from capsim.fleet.log import Floats, Outcome, RunLog
from capsim.measure.steady import BATCHES, SIGNIFICANCE, backlog_drift, rise, trend, warm_up
from tests.measure.run_logs import request, run_log, served, with_requests

LINE: Floats = np.arange(BATCHES, dtype=np.float64)


def autoregressive(
    runs: int, n: int, memory: float, seed: int
) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Stationary AR(1) series with unit variance, shape (runs, n)."""
    noise = np.random.default_rng(seed).standard_normal((runs, n)) * np.sqrt(1 - memory**2)
    series = np.empty((runs, n))
    series[:, 0] = noise[:, 0] / np.sqrt(1 - memory**2)
    for step in range(1, n):
        series[:, step] = memory * series[:, step - 1] + noise[:, step]
    return series


def queue(arrival: Floats, service: Floats) -> RunLog:
    """One server, in order of arrival."""
    finish = np.empty(len(arrival))
    free = 0.0
    for row, (time, length) in enumerate(zip(arrival.tolist(), service.tolist(), strict=True)):
        free = finish[row] = max(free, time) + length
    n = len(arrival)
    log = run_log([served(0.0, 0.0, 0.0, 0.0)] * n, [])
    return with_requests(log, arrival=arrival, finish=finish)


def markov_queue(load: float, n: int, seed: int) -> RunLog:
    rng = np.random.default_rng(seed)
    return queue(np.cumsum(rng.standard_exponential(n)) / load, rng.standard_exponential(n))


def test_warm_up_finds_a_step() -> None:
    rng = np.random.default_rng(1)
    values = np.concatenate([10 + rng.standard_normal(300), rng.standard_normal(1700)])
    # The exact batch may be cut on by a few noisy means.
    assert 300 <= warm_up(values) <= 350


@pytest.mark.parametrize("decay", [20, 50, 100])
def test_warm_up_cuts_a_transient_down_to_the_noise(decay: int) -> None:
    noise = np.random.default_rng(decay).standard_normal((40, 2000))
    cuts = [warm_up(10 * np.exp(-np.arange(2000) / decay) + row) for row in noise]
    # A transient of 10 is below the noise of a mean of 5 (0.45) after 3.1 decay times, and buried after 6.
    assert np.median(cuts) == pytest.approx(3.1 * decay, rel=0.3)
    assert max(cuts) < 6 * decay


def test_warm_up_cuts_little_of_a_steady_run() -> None:
    cuts = [warm_up(row) for row in np.random.default_rng(3).standard_normal((100, 2000))]
    assert np.median(cuts) <= 10
    assert np.mean(np.array(cuts) > 200) < 0.05


def test_warm_up_by_hand() -> None:
    # Squared standard errors of what is left of 9, 1, 1, 1, 1, 1: 0 once the 9 is gone, and the first minimum counts.
    assert warm_up(np.array([9.0, 1, 1, 1, 1, 1]), batch=1) == 1
    assert warm_up(np.array([9.0, 9, 1, 1, 1, 1, 1, 1]), batch=2) == 2
    assert warm_up(np.array([5.0, 1.0]), batch=5) == 0
    assert warm_up(np.zeros(0)) == 0


@pytest.mark.parametrize("memory", [0.0, 0.9])
def test_trend_seldom_finds_one_in_a_stationary_series(memory: float) -> None:
    means = autoregressive(1000, 100 * BATCHES, memory, seed=4).reshape(1000, BATCHES, 100).mean(axis=2)
    chances = np.array([trend(row).p_value for row in means])
    # The stated level, and four standard deviations of a share of 1000 runs.
    for level in (0.05, 0.01):
        assert np.mean(chances < level) < level + 4 * np.sqrt(level * (1 - level) / 1000)


def test_trend_finds_a_ramp() -> None:
    series = autoregressive(50, 100 * BATCHES, 0.9, seed=5) + np.linspace(0, 4, 100 * BATCHES)
    fits = [trend(row) for row in series.reshape(50, BATCHES, 100).mean(axis=2)]
    # A ramp of four standard deviations is missed now and then at this strict level.
    assert np.mean([fit.p_value < SIGNIFICANCE for fit in fits]) > 0.9
    # Four standard deviations over 16 means; the average of 50 fits is within a few percent of it.
    assert np.mean([fit.slope for fit in fits]) == pytest.approx(4 / BATCHES, rel=0.05)


def test_a_ramp_downwards_is_no_growth() -> None:
    assert trend(np.linspace(4, 0, BATCHES) + 0.1 * np.sin(LINE)).p_value > 0.99
    assert trend(-LINE).p_value == 1.0
    assert rise(-LINE) == 1.0


def test_exact_lines_and_constants() -> None:
    assert trend(LINE * 2.0) == trend(LINE * 2.0 + 7)
    assert trend(LINE * 2.0).slope == 2.0
    assert trend(LINE * 2.0).p_value == rise(LINE * 2.0) == 0.0
    assert trend(np.full(BATCHES, 3.0)).p_value == rise(np.full(BATCHES, 3.0)) == 1.0


def test_rise_finds_the_drift_of_a_random_walk() -> None:
    steps = np.random.default_rng(6).standard_normal((1000, BATCHES))
    walks = np.cumsum(steps, axis=1)
    chances = np.array([rise(np.append(0, row)) for row in walks])
    assert np.mean(chances < 0.05) == pytest.approx(0.05, abs=4 * np.sqrt(0.05 * 0.95 / 1000))
    drifting = np.array([rise(np.append(0, row)) for row in walks + 2 * np.arange(1, BATCHES + 1)])
    assert np.mean(drifting < SIGNIFICANCE) > 0.95


@pytest.mark.parametrize("load", [0.5, 0.8, 0.9])
def test_a_queue_below_its_capacity_does_not_grow(load: float) -> None:
    grown = [backlog_drift(markov_queue(load, 2000, seed)).grows for seed in range(40)]
    # At one false alarm in a thousand, two in 40 have a chance below 1e-3.
    assert sum(grown) <= 1


def test_an_overloaded_queue_grows() -> None:
    drifts = [backlog_drift(markov_queue(1.5, 3000, seed)) for seed in range(20)]
    assert all(drift.grows for drift in drifts)
    # A third of the arrivals stays behind.
    assert np.mean([drift.growth for drift in drifts]) == pytest.approx(1 / 3, rel=0.1)


def test_a_steady_overload_is_measured_exactly() -> None:
    # One request per second, one served every 2 s: the backlog grows by half of the arrivals.
    drift = backlog_drift(queue(np.arange(1601.0), np.full(1601, 2.0)))
    assert drift.slope == pytest.approx(
        0.5, rel=0.01
    )  # arrivals are whole, so batch means jump by up to 1 / 50
    assert drift.growth == pytest.approx(0.5, rel=0.01)
    assert drift.grows


def test_unfinished_requests_stay_in_the_system() -> None:
    log = run_log([request(float(i), outcome=Outcome.UNFINISHED, output=2) for i in range(200)], [])
    drift = backlog_drift(log)
    assert drift.grows
    assert drift.growth == pytest.approx(
        1.0, rel=0.05
    )  # all stay; the first arrival of the half counts twice


def test_rejected_requests_and_short_runs_show_no_drift() -> None:
    rejected = run_log([request(float(i)) for i in range(200)], [])
    few = run_log([request(float(i), outcome=Outcome.UNFINISHED) for i in range(20)], [])
    at_once = run_log([request(0.0, outcome=Outcome.UNFINISHED) for _ in range(200)], [])
    for log in (rejected, few, at_once):
        drift = backlog_drift(log)
        assert (drift.slope, drift.p_value, drift.grows) == (0.0, 1.0, False)
