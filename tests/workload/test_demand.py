from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from capsim.errors import BadInput
from capsim.workload.arrivals import GammaArrivals, PoissonArrivals
from capsim.workload.demand import Demand, SyntheticDemand, TraceDemand
from capsim.workload.lengths import FixedLength, GeometricLength, LognormalLength
from capsim.workload.trace import Trace, read_azure

AZURE_2023 = Path(__file__).parents[2] / "configs" / "traces" / "azure_conv_2023.csv"
SYNTHETIC = SyntheticDemand(PoissonArrivals(), LognormalLength(1000.0, 1.0), GeometricLength(200.0))


def seed(number: int = 5) -> np.random.SeedSequence:
    return np.random.SeedSequence(number)


def trace_of(arrival: list[float], prompt: list[int]) -> Trace:
    return Trace(
        name="hand",
        source="hand.csv",
        sha256="",
        attribution="",
        arrival=np.array(arrival),
        prompt=np.array(prompt, dtype=np.int64),
        output=np.array(prompt, dtype=np.int64) * 10,
        rows=len(arrival),
    )


@pytest.fixture(scope="module")
def azure() -> TraceDemand:
    return TraceDemand(read_azure(AZURE_2023))


@pytest.fixture(params=["trace", "synthetic"])
def demand(request: pytest.FixtureRequest, azure: TraceDemand) -> Demand:
    return azure if request.param == "trace" else SYNTHETIC


def test_draws_are_valid_and_repeatable(demand: Demand) -> None:
    root = seed()
    first, second, other = (demand.draw(20.0, 100.0, which) for which in (root, root, seed(6)))
    assert len(first) == len(first.prompt) == len(first.output)
    assert min(first.prompt.min(), first.output.min()) >= 1
    assert 0 <= first.arrival[0] <= first.arrival[-1] < 100.0
    for column in ("arrival", "prompt", "output"):
        assert getattr(first, column).tobytes() == getattr(second, column).tobytes()
        assert getattr(first, column).tobytes() != getattr(other, column).tobytes()
    assert root.n_children_spawned == 0


def test_children_of_one_seed_differ(demand: Demand) -> None:
    draws = [demand.draw(5.0, 50.0, child).arrival.tolist() for child in seed().spawn(3)]
    assert draws[0] != draws[1] != draws[2]


def test_the_mean_rate_is_the_rate_asked_for(demand: Demand) -> None:
    counts = [len(demand.draw(10.0, 200.0, child)) for child in seed().spawn(100)]
    # 200,000 Poisson arrivals in all: four standard deviations.
    assert sum(counts) == pytest.approx(200_000, abs=4 * math.sqrt(200_000))


def test_draws_have_the_demand_s_mean_lengths(demand: Demand) -> None:
    requests = demand.draw(20.0, 2000.0, seed())
    for lengths, expected in ((requests.prompt, demand.mean_prompt), (requests.output, demand.mean_output)):
        # Four standard errors; rows of one bin are alike, which the number of rows does not see, hence twice that.
        assert lengths.mean() == pytest.approx(expected, abs=8 * lengths.std() / math.sqrt(len(requests)))


def test_two_rates_are_coupled(demand: Demand) -> None:
    slow, fast = demand.draw(10.0, 1000.0, seed()), demand.draw(11.0, 1000.0, seed())
    other = demand.draw(11.0, 1000.0, seed(6))
    n = min(len(slow), len(fast), len(other))
    assert len(fast) > len(slow)
    # Independent draws correlate by less than four standard errors, coupled ones by much more.
    noise = 4 / math.sqrt(n)
    same = np.corrcoef(np.diff(slow.arrival[:n]), np.diff(fast.arrival[:n]))[0, 1]
    independent = np.corrcoef(np.diff(slow.arrival[:n]), np.diff(other.arrival[:n]))[0, 1]
    assert same > 0.5
    assert abs(independent) < max(
        noise, 0.15
    )  # an envelope in common correlates the gaps of a trace a little


def test_lengths_and_arrivals_have_streams_of_their_own() -> None:
    bursty = SyntheticDemand(GammaArrivals(0.5), SYNTHETIC.prompt, SYNTHETIC.output)
    longer = SyntheticDemand(SYNTHETIC.arrivals, FixedLength(9), SYNTHETIC.output)
    base, other_arrivals, other_prompts = (
        which.draw(10.0, 100.0, seed()) for which in (SYNTHETIC, bursty, longer)
    )
    n = min(len(base), len(other_arrivals))
    assert base.prompt[:n].tolist() == other_arrivals.prompt[:n].tolist()
    assert base.output[:n].tolist() == other_arrivals.output[:n].tolist()
    assert base.arrival.tolist() == other_prompts.arrival.tolist()
    assert base.output.tolist() == other_prompts.output.tolist()


def test_synthetic_lengths_at_two_rates_are_the_same() -> None:
    slow, fast = SYNTHETIC.draw(10.0, 100.0, seed()), SYNTHETIC.draw(20.0, 100.0, seed())
    assert slow.prompt.tolist() == fast.prompt[: len(slow)].tolist()


def test_saturating_requests_arrive_at_once(demand: Demand) -> None:
    requests = demand.saturating(5000, seed())
    assert len(requests) == 5000
    assert not requests.arrival.any()
    assert requests.prompt.mean() == pytest.approx(
        demand.mean_prompt, abs=4 * requests.prompt.std() / math.sqrt(5000)
    )


def test_the_resample_keeps_the_rate_over_time(azure: TraceDemand) -> None:
    trace = azure.trace
    bins = len(azure.envelope.weights)
    assert trace.duration / bins == pytest.approx(
        60.0, abs=1.0
    )  # equal bins as near to 60 s as divides the hour
    expected = np.histogram(trace.arrival, bins=bins, range=(0.0, trace.duration))[0]
    draws = [azure.draw(trace.rate, 600.0, child).arrival for child in seed().spawn(50)]
    counts = np.histogram(np.concatenate(draws), bins=bins, range=(0.0, 600.0))[0]
    mean = expected * 50 * 600.0 / trace.duration
    # Every one of 58 Poisson counts within 4.5 standard deviations: a chance of 4e-4 to fail.
    assert (np.abs(counts - mean) < 4.5 * np.sqrt(mean)).all()
    # A constant rate would not pass: the trace's own counts differ by far more.
    assert np.abs(mean - mean.mean()).max() > 4.5 * math.sqrt(mean.mean())


def test_lengths_are_rows_of_the_same_bin(azure: TraceDemand) -> None:
    trace = azure.trace
    bins = len(azure.envelope.weights)
    row_bin = np.minimum(trace.arrival / trace.duration * bins, bins - 1).astype(int).tolist()
    rows = set(zip(row_bin, trace.prompt.tolist(), trace.output.tolist(), strict=True))
    requests = azure.draw(20.0, 500.0, seed())
    drawn_bin = (requests.arrival / 500.0 * bins).astype(int).tolist()
    drawn = set(zip(drawn_bin, requests.prompt.tolist(), requests.output.tolist(), strict=True))
    assert drawn <= rows
    assert len(drawn) > 5000


def test_a_bin_without_requests_stays_empty() -> None:
    demand = TraceDemand(trace_of([0.0, 1.0, 2.0, 9.0, 10.0], [1, 2, 3, 4, 5]), bin=2.5)
    assert demand.envelope.weights == (3.0, 0.0, 0.0, 2.0)
    requests = demand.draw(2.0, 400.0, seed())
    early = requests.arrival < 200.0
    assert set(requests.prompt[early].tolist()) == {1, 2, 3}
    assert set(requests.prompt[~early].tolist()) == {4, 5}
    assert (requests.arrival[early] < 100.0).all()
    assert (requests.arrival[~early] >= 300.0).all()
    assert (requests.output == requests.prompt * 10).all()


def test_literal_scales_time_only(azure: TraceDemand) -> None:
    trace = azure.trace
    twice = azure.literal(2 * trace.rate)
    assert len(twice) / twice.arrival[-1] == pytest.approx(2 * trace.rate, rel=1e-12)  # rounding only
    assert twice.arrival == pytest.approx(trace.arrival / 2, rel=1e-12)
    assert twice.prompt is trace.prompt
    recorded = azure.recorded()
    assert recorded.arrival is trace.arrival
    assert recorded.output is trace.output


def test_literal_needs_a_rate_to_scale() -> None:
    demand = TraceDemand(trace_of([0.0], [3]))
    with pytest.raises(BadInput, match="no rate to scale"):
        demand.literal(1.0)
    with pytest.raises(BadInput, match="above 0"):
        demand.literal(0.0)
    assert set(demand.draw(1.0, 50.0, seed()).prompt.tolist()) == {3}


def test_impossible_bin_is_refused(azure: TraceDemand) -> None:
    with pytest.raises(BadInput, match="bin"):
        TraceDemand(azure.trace, bin=0.0)


def test_trace_description_has_the_known_figures(azure: TraceDemand) -> None:
    record = json.loads(json.dumps(azure.description(), allow_nan=False))
    # Reference figures with as many decimals as stated.
    assert record["prompt"] == pytest.approx(
        {"mean": 1154.7, "p50": 1020, "p95": 4083, "p99": 4142}, abs=0.05
    )
    assert record["output"] == pytest.approx({"mean": 211.126, "p50": 129, "p95": 451, "p99": 601}, abs=5e-4)
    assert record["gap_cv"] == pytest.approx(1.0942, abs=5e-5)
    assert record["dispersion_of_counts"] == pytest.approx(
        {"1s": 1.386, "10s": 3.868, "60s": 16.411}, abs=5e-4
    )
    assert record["prefix_reuse"] == "not recorded"
    assert "Splitwise" in record["attribution"]


def test_synthetic_description_is_in_closed_form() -> None:
    record = json.loads(json.dumps(SYNTHETIC.description(), allow_nan=False))
    assert record["prompt"]["mean"] == 1000
    # Median of a lognormal: mean / sqrt(1 + cv^2), rounded to a token.
    assert record["prompt"]["p50"] == round(1000 / math.sqrt(2))
    assert record["gap_cv"] == 1.0
    assert record["prefix_reuse"] == 0.0


def test_a_trace_of_one_request_can_be_described() -> None:
    record = json.loads(json.dumps(TraceDemand(trace_of([0.0], [3])).description(), allow_nan=False))
    assert record["rate"] is None
    assert record["gap_cv"] is None
