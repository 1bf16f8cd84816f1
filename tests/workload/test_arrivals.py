from __future__ import annotations

import math

import numpy as np
import pytest

from capsim.errors import BadInput
from capsim.workload.arrivals import (
    ArrivalProcess,
    ConstantArrivals,
    EnvelopeArrivals,
    GammaArrivals,
    PoissonArrivals,
    RenewalProcess,
)
from capsim.workload.burstiness import dispersion_of_counts, gap_cv

RENEWALS = [PoissonArrivals(), GammaArrivals(0.25), GammaArrivals(4.0), ConstantArrivals()]
PROCESSES: list[ArrivalProcess] = [*RENEWALS, EnvelopeArrivals((1.0, 0.0, 3.0))]


def rng() -> np.random.Generator:
    return np.random.default_rng(7)


@pytest.mark.parametrize("process", PROCESSES, ids=str)
def test_arrivals_lie_within_the_duration_in_order(process: ArrivalProcess) -> None:
    arrival = process.within(2.0, 500.0, rng())
    assert arrival.dtype == np.float64
    assert arrival[0] >= 0
    assert arrival[-1] < 500.0
    assert (np.diff(arrival) >= 0).all()


@pytest.mark.parametrize("process", RENEWALS, ids=str)
def test_renewals_have_the_rate_and_the_burstiness(process: RenewalProcess) -> None:
    arrival = process.within(5.0, 4000.0, rng())
    # The number of renewals has standard deviation cv * sqrt(n); four of them, and one for the ends.
    assert len(arrival) == pytest.approx(20_000, abs=4 * process.cv * math.sqrt(20_000) + 1)
    # The sample cv of 20,000 gaps is within 5 % for these shapes (standard error about 1 % at shape 0.25).
    assert gap_cv(arrival) == pytest.approx(process.cv, rel=0.05, abs=1e-9)


@pytest.mark.parametrize("process", RENEWALS, ids=str)
def test_rates_and_durations_play_one_pattern(process: RenewalProcess) -> None:
    slow, fast = process.within(1.0, 300.0, rng()), process.within(4.0, 75.0, rng())
    assert len(slow) == len(fast)
    assert slow == pytest.approx(fast * 4, rel=1e-12)  # the same sums, scaled: rounding only
    longer = process.within(1.0, 30_000.0, rng())
    # A longer run continues a shorter one, also where it draws its gaps in other portions.
    assert longer[: len(slow)] == pytest.approx(slow, rel=1e-12)
    assert process.first(50, 1.0, rng()) == pytest.approx(slow[:50], rel=1e-12)


def test_a_short_first_portion_is_continued() -> None:
    # At shape 1e-3 the first portion of gaps often ends before the duration.
    counts = [len(GammaArrivals(1e-3).within(1.0, 100.0, np.random.default_rng(seed))) for seed in range(50)]
    last = [GammaArrivals(1e-3).within(1.0, 100.0, np.random.default_rng(seed)) for seed in range(50)]
    assert max(counts) > 200
    assert all((arrival < 100.0).all() for arrival in last)


def test_constant_arrivals_by_hand() -> None:
    assert ConstantArrivals().within(2.0, 2.0, rng()).tolist() == [0.25, 0.75, 1.25, 1.75]
    assert len(ConstantArrivals().within(0.29, 100.0, rng())) == 29


def test_envelope_follows_its_weights() -> None:
    arrival, bins = EnvelopeArrivals((1.0, 0.0, 3.0)).within_bins(10.0, 3000.0, rng())
    counts = np.bincount(bins, minlength=3)
    assert bins.tolist() == (arrival // 1000.0).astype(int).tolist()
    # Poisson counts of mean 7500 and 22500 within four standard deviations.
    assert counts[0] == pytest.approx(7500, abs=4 * math.sqrt(7500))
    assert counts[1] == 0
    assert counts[2] == pytest.approx(22_500, abs=4 * math.sqrt(22_500))


def test_a_flat_envelope_is_a_poisson_process() -> None:
    arrival = EnvelopeArrivals((2.0,) * 30).within(10.0, 2000.0, rng())
    # 20,000 exponential gaps: standard error of the cv 0.7 %; 2000 windows: of the dispersion 3 %.
    assert gap_cv(arrival) == pytest.approx(1.0, abs=0.03)
    assert dispersion_of_counts(arrival, 1.0) == pytest.approx(1.0, abs=0.13)


@pytest.mark.parametrize("weights", [(), (0.0, 0.0), (-1.0, 2.0), (math.nan,)])
def test_impossible_envelopes_are_refused(weights: tuple[float, ...]) -> None:
    with pytest.raises(BadInput, match="envelope"):
        EnvelopeArrivals(weights)


@pytest.mark.parametrize(("rate", "duration"), [(0.0, 1.0), (1.0, 0.0), (-1.0, 1.0), (math.nan, 1.0)])
@pytest.mark.parametrize("process", PROCESSES, ids=str)
def test_impossible_rates_are_refused(process: ArrivalProcess, rate: float, duration: float) -> None:
    with pytest.raises(BadInput, match="above 0"):
        process.within(rate, duration, rng())


@pytest.mark.parametrize("rate", [1e6, 1e308])
def test_more_requests_than_a_memory_holds_are_refused(rate: float) -> None:
    with pytest.raises(
        BadInput, match=r"are more than 50,000,000 requests.*a lower rate or a shorter plan.duration"
    ):
        PoissonArrivals().within(rate, 60.0, np.random.default_rng(1))


def test_burstiness_of_arrivals_by_hand() -> None:
    assert gap_cv(np.array([0.0, 1.0, 2.0, 5.0])) == pytest.approx(math.sqrt(8 / 9) / (5 / 3), rel=1e-12)
    # Windows [0, 2) and [2, 4) hold 3 and 1: mean 2, sample variance 2; the rest is no whole window.
    assert dispersion_of_counts(np.array([10.0, 10.5, 11.0, 13.0, 14.5]), 2.0) == 1.0
    assert math.isnan(gap_cv(np.array([1.0, 2.0])))
    assert math.isnan(dispersion_of_counts(np.array([0.0, 3.0]), 2.0))
