from __future__ import annotations

import pytest

from tests.truth.run_seconds import FULL, bands, tokens_between
from tests.truth.run_table import PREEMPTIONS, PREEMPTIONS_TARGET, TARGETS
from tests.truth.runs import (
    AMPLE,
    SKEWED,
    STARVED,
    STATISTICS,
    UNQUEUED,
    errors,
    fitted_host,
    measured,
    simulated,
)


@pytest.mark.parametrize("metric", ["TTFT", "TPOT", "E2E"])
def test_short_memory_is_predicted_from_kernels_alone(metric: str) -> None:
    """The mean and every percentile, with nothing fitted."""
    found = errors(STARVED)[metric]
    assert all(abs(found[name]) <= TARGETS[STARVED][metric] for name in STATISTICS), found


def test_preemptions_are_as_many_as_another_simulator_finds() -> None:
    """Within 15 %: the run did not count its own."""
    preempted = int(simulated(STARVED).requests.preemptions.sum())
    assert preempted == pytest.approx(PREEMPTIONS, rel=PREEMPTIONS_TARGET)


@pytest.mark.parametrize("metric", ["TPOT", "E2E"])
def test_ample_memory_is_predicted_from_kernels_alone(metric: str) -> None:
    """Within 2 % with nothing fitted, and at the mean not slower: the profile has kernels and nothing between them."""
    found = errors(AMPLE)[metric]
    assert all(abs(found[name]) <= TARGETS[AMPLE][metric] for name in STATISTICS), found
    assert found["mean"] <= 0


def test_a_growing_queue_adds_up_what_steps_lack() -> None:
    """TTFT with nothing fitted: 5 %, and 10 % at the median, where the queue begins and few requests move it far."""
    found = errors(AMPLE)["TTFT"]
    assert all(abs(found[name]) <= 0.05 for name in ("mean", "p90", "p95", "p99")), found
    assert abs(found["p50"]) <= 0.1


@pytest.mark.parametrize("host", [False, True])
def test_time_to_first_token_of_requests_that_do_not_queue(host: bool) -> None:
    """The median within 8 %: with nothing fitted too."""
    found = errors(AMPLE, fitted_host(AMPLE) if host else 0.0, UNQUEUED)["TTFT"]
    assert abs(found["p50"]) <= 0.08, found


def test_one_constant_overshoots_by_what_the_tables_lack_between_32_and_64_decodes() -> None:
    """It misses its targets of 3 and 2 % by about a point: fitted at few decodes, where steps lack more than at 128."""
    host = fitted_host(AMPLE)
    assert 0 < host < 1.5e-3  # what an engine is known to do between kernels on such machines
    found = errors(AMPLE, host)
    assert all(0 < found[metric]["mean"] <= 0.035 for metric in found), found
    few, between, many, most = bands(AMPLE)
    missing = [band.measured - band.simulated for band in (few, between, many, most)]
    assert missing[1] > host > max(missing[0], missing[2], missing[3]), missing


def test_what_the_source_switches_off_would_make_steps_too_long() -> None:
    """In seconds in which nothing but decodes ran the table errs more than its absence, and to the other side."""
    real, without = tokens_between(STARVED, *FULL)
    _, charged = tokens_between(SKEWED, *FULL)
    assert charged < real < without
    assert real - charged > 2 * (without - real)


def test_both_runs_are_overloaded() -> None:
    for run in (AMPLE, STARVED):
        real = measured(run)
        offered = len(real["queued_s"]) / real["queued_s"].max()
        served = len(real["queued_s"]) / (real["queued_s"] + real["e2e_queued_ms"] / 1e3).max()
        assert offered > 2 * served
