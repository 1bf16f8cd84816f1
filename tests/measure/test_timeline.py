"""One run over time: what bins say adds up to what the whole run says."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from capsim.fleet.log import LeapColumns, RunLog
from capsim.measure.latency import user_latencies
from capsim.measure.leaps import Occupancy
from capsim.measure.timeline import Timeline
from capsim.measure.ttft_bands import LIMITS, ttft_bands
from capsim.plan.deployment import deploy
from capsim.plan.experiment import Experiment, record
from capsim.scenario import load

SMALL = Path(__file__).parents[1] / "plan" / "small.yaml"
REPLICAS = 2


@pytest.fixture(scope="module")
def log() -> RunLog:
    experiment = Experiment("resample", REPLICAS, rate=60.0, duration=20.0)
    return record(deploy(load(SMALL)), experiment)


def leaps(**columns: list[float]) -> LeapColumns:
    count = len(columns["start"])
    floats = {"start", "first", "slope"}
    given = {
        name: np.asarray(columns.get(name, [0.0] * count), dtype=np.float64 if name in floats else np.int64)
        for name in LeapColumns.__dataclass_fields__
    }
    return LeapColumns(**given)


def with_leaps(log: RunLog, columns: LeapColumns, end: float) -> RunLog:
    requests = replace(log.requests, arrival=np.array([0.0]), finish=np.array([end]), outcome=np.array([0]))
    return replace(
        log, requests=requests, leaps=columns, end=end, evictions=np.zeros(REPLICAS, dtype=np.int64)
    )


@pytest.mark.parametrize("bins", [1, 7, 160])
def test_means_over_bins_are_the_whole_runs(log: RunLog, bins: int) -> None:
    timeline, whole = Timeline.of(log, bins), Occupancy.of(log.leaps)
    time = timeline.width * REPLICAS
    for mean, expected in (
        (timeline.running_mean, whole.running_mean),
        (timeline.waiting_mean, whole.waiting_mean),
        (timeline.blocks_mean, whole.blocks_mean),
    ):
        # Sums of some thousand products of floats.
        assert mean.sum() * time == pytest.approx(expected * whole.busy_time, rel=1e-9)


@pytest.mark.parametrize("bins", [1, 7, 160])
def test_the_most_of_all_bins_is_the_whole_runs(log: RunLog, bins: int) -> None:
    timeline, whole = Timeline.of(log, bins), Occupancy.of(log.leaps)
    assert timeline.running_max.max() == whole.running_max
    assert timeline.waiting_max.max() == whole.waiting_max
    assert timeline.blocks_max.max() == whole.blocks_max


def test_every_request_arrives_and_ends_in_one_bin(log: RunLog) -> None:
    timeline = Timeline.of(log)
    count = len(log.requests.arrival)
    assert timeline.arrivals.sum() * timeline.width == pytest.approx(count)
    assert timeline.completions.sum() * timeline.width == pytest.approx(count)


def test_a_mean_is_never_above_the_most(log: RunLog) -> None:
    timeline = Timeline.of(log)
    for mean, most in (
        (timeline.running_mean, timeline.running_max),
        (timeline.waiting_mean, timeline.waiting_max),
        (timeline.blocks_mean, timeline.blocks_max),
    ):
        assert (mean <= most * (1 + 1e-12)).all()  # one rounding of a sum


def test_a_leap_counts_in_every_bin_for_as_long_as_it_lasts(log: RunLog) -> None:
    """Ten steps of 0.4 s from 1 s on: half a second in the first bin of 1.5 s, then a whole and a part of one."""
    long = leaps(
        replica=[0], start=[1.0], steps=[10], first=[0.4], running=[6], waiting=[2], blocks=[10], growth=[4]
    )
    timeline = Timeline.of(with_leaps(log, long, end=6.0), bins=4)
    assert timeline.width == 1.5
    seconds = np.array([0.5, 1.5, 1.5, 0.5])
    assert timeline.running_mean == pytest.approx(6 * seconds / (1.5 * REPLICAS))
    assert timeline.blocks_mean == pytest.approx(12 * seconds / (1.5 * REPLICAS))
    assert timeline.blocks_max.tolist() == [14, 14, 14, 14]


def test_the_fullest_replica_is_not_the_sum_of_all(log: RunLog) -> None:
    both = leaps(replica=[0, 1], start=[0.0, 0.0], steps=[1, 1], first=[1.0, 1.0], running=[3, 5])
    timeline = Timeline.of(with_leaps(log, both, end=1.0), bins=1)
    assert timeline.running_max.tolist() == [5]
    assert timeline.running_mean == pytest.approx([4])


def test_the_size_does_not_depend_on_the_length(log: RunLog) -> None:
    assert {len(column) for column in vars(Timeline.of(log)).values() if isinstance(column, np.ndarray)} == {
        160
    }


def test_without_time_there_are_no_bins(log: RunLog) -> None:
    nothing = with_leaps(log, leaps(start=[]), end=0.0)
    timeline = Timeline.of(nothing)
    assert timeline.width == 0
    assert len(timeline.arrivals) == len(timeline.blocks_max) == 0


def test_bands_of_ttft_hold_every_measured_request_once(log: RunLog) -> None:
    measured = np.arange(len(log.requests.arrival)) >= 100
    bands = ttft_bands(log, measured)
    assert sum(band.requests for band in bands) == measured.sum()
    assert [(band.above, band.upto) for band in bands] == list(pairwise(LIMITS))


def test_bands_of_ttft_are_slower_one_by_one_and_together_the_mean(log: RunLog) -> None:
    everything = np.ones(len(log.requests.arrival), dtype=bool)
    bands = ttft_bands(log, everything)
    sums = [sum(band.parts.values()) for band in bands]
    assert sums == sorted(sums)
    mean = sum(band.requests * total for band, total in zip(bands, sums, strict=True)) / len(everything)
    assert mean == pytest.approx(user_latencies(log).ttft.mean(), rel=1e-12)  # sums in another order


def test_without_a_completed_request_there_is_no_band(log: RunLog) -> None:
    assert ttft_bands(log, np.zeros(len(log.requests.arrival), dtype=bool)) == ()
