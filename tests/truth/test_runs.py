from __future__ import annotations

import pytest

from tests.truth.runs import RUNS, STATISTICS, errors

AMPLE, STARVED = RUNS


@pytest.mark.parametrize("metric", ["TPOT", "E2E"])
def test_an_engine_with_ample_memory_is_predicted_from_its_profile_alone(metric: str) -> None:
    """Within 2.5 % at the mean and every percentile, and not slower: the profile has kernels alone.

    What an engine does between them is 0 to 1.5 ms a step on such machines, and nothing here is fitted to the run. A
    step of this one takes 32 ms, so 2.5 % are 0.8 ms.
    """
    found = errors(AMPLE)[metric]
    assert all(-0.025 <= found[name] <= 0 for name in STATISTICS), found


def test_time_to_first_token_of_an_overloaded_engine() -> None:
    """A queue adds up what each step lacks: twice the error of a step at the mean, and most where it begins to grow.

    The median lies there, where a few requests move it by seconds: 10 %; elsewhere 5 %.
    """
    found = errors(AMPLE)["TTFT"]
    assert all(abs(found[name]) <= 0.05 for name in ("mean", "p90", "p95", "p99")), found
    assert abs(found["p50"]) <= 0.1


def test_short_memory_errs_to_the_slow_side() -> None:
    """By at most 5 % at the mean: a profile that overstates small chunks beside long decodes is one cause."""
    found = errors(STARVED)
    assert all(0 < found[metric]["mean"] <= 0.05 for metric in found), found
