from __future__ import annotations

import pytest

from tests.truth.runs import RUNS, STATISTICS, errors

AMPLE, STARVED = RUNS


@pytest.mark.parametrize("metric", ["TPOT", "E2E"])
def test_an_engine_with_ample_memory_is_predicted_from_its_profile_alone(metric: str) -> None:
    """Within 2 % at the mean and every percentile: what the best published simulator reports for this run."""
    found = errors(AMPLE)[metric]
    assert all(abs(found[name]) <= 0.02 for name in STATISTICS), found


def test_time_to_first_token_of_an_overloaded_engine() -> None:
    """Within 3 % but for the median, which lies where the queue begins to grow: a few requests move it by seconds."""
    found = errors(AMPLE)["TTFT"]
    assert all(abs(found[name]) <= 0.03 for name in ("mean", "p90", "p95", "p99")), found


def test_short_memory_errs_to_the_slow_side() -> None:
    """The engine finds 8 % of the prompt tokens in its cache, from other requests; the simulation computes them all."""
    found = errors(STARVED)
    assert all(0 < found[metric]["mean"] <= 0.08 for metric in found), found
