from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from capsim.errors import BadInput
from capsim.workload.arrivals import GammaArrivals, PoissonArrivals
from capsim.workload.azure import read_azure
from capsim.workload.demand import Demand, SyntheticDemand, TraceDemand
from capsim.workload.lengths import FixedLength, GeometricLength, LognormalLength
from capsim.workload.mooncake import read_mooncake
from capsim.workload.requests import Requests
from capsim.workload.reuse import PromptBlocks, Reuse
from capsim.workload.shared_prefixes import SharedPrefixes
from capsim.workload.trace import Trace
from tests.workload.recorded import SHIPPED

AZURE_2023 = SHIPPED / "azure_conv_2023.csv"
MOONCAKE = SHIPPED / "mooncake_conversation_first2000.jsonl.gz"
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


@pytest.fixture(scope="module")
def mooncake() -> TraceDemand:
    return TraceDemand(read_mooncake(MOONCAKE))


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


def reuse_of(requests: Requests) -> Reuse:
    """What an endless cache finds of the hash blocks."""
    assert requests.prefixes is not None
    assert len(requests.prefixes) == len(requests)
    return PromptBlocks.cut(requests.prefixes, requests.prompt, 512).found_ever()


def test_replays_carry_the_trace_s_prefixes(mooncake: TraceDemand) -> None:
    assert mooncake.recorded().prefixes is mooncake.trace.prefixes
    assert mooncake.literal(7.0).prefixes is mooncake.trace.prefixes


def test_a_trace_with_prefixes_is_drawn_in_its_own_order(mooncake: TraceDemand) -> None:
    trace = mooncake.trace
    requests = mooncake.draw(3.0, 600.0, seed())
    # Lengths of 50 rows in a row are enough to find where the draw begins.
    window = requests.prompt[:50].tolist()
    around = np.concatenate([trace.prompt, trace.prompt]).tolist()
    starts = [row for row in range(len(trace)) if around[row : row + 50] == window]
    assert len(starts) == 1
    rows = (starts[0] + np.arange(len(requests))) % len(trace)
    assert requests.prompt.tolist() == trace.prompt[rows].tolist()
    assert requests.output.tolist() == trace.output[rows].tolist()
    other = mooncake.draw(3.0, 600.0, seed(6))
    assert other.prompt[:50].tolist() != window


def test_draws_at_two_rates_are_the_same_rows_in_two_tempos(mooncake: TraceDemand) -> None:
    slow, fast = mooncake.draw(2.0, 300.0, seed()), mooncake.draw(4.0, 300.0, seed())
    n = len(slow)
    assert len(fast) > n
    assert fast.prompt[:n].tolist() == slow.prompt.tolist()
    assert fast.output[:n].tolist() == slow.output.tolist()
    assert slow.prefixes is not None
    assert fast.prefixes is not None
    assert all(fast.prefixes.path(row) == slow.prefixes.path(row) for row in range(n))
    together = mooncake.saturating(n, seed())
    assert together.prompt.tolist() == slow.prompt.tolist()


@pytest.mark.parametrize("number", [5, 6, 7])
def test_a_pass_through_the_trace_offers_the_trace_s_reuse(mooncake: TraceDemand, number: int) -> None:
    recorded = reuse_of(mooncake.recorded())
    once = reuse_of(mooncake.saturating(len(mooncake.trace), seed(number)))
    # Wherever it begins: an endless cache misses each block once.
    assert once == recorded


def test_further_passes_share_nothing_with_those_before(mooncake: TraceDemand) -> None:
    recorded, n = reuse_of(mooncake.recorded()), len(mooncake.trace)
    twice = reuse_of(mooncake.saturating(2 * n, seed()))
    assert (twice.blocks, twice.unique, twice.hits) == (
        2 * recorded.blocks,
        2 * recorded.unique,
        2 * recorded.hits,
    )


def test_reuse_distances_are_those_of_the_trace(mooncake: TraceDemand) -> None:
    trace = mooncake.trace
    assert trace.prefixes is not None
    recorded = PromptBlocks.cut(trace.prefixes, trace.prompt, 512).found_by_lru(2_000)
    drawn = [mooncake.saturating(len(trace), child) for child in seed().spawn(10)]
    shares = [
        PromptBlocks.cut(requests.prefixes, requests.prompt, 512).found_by_lru(2_000).block_share
        for requests in drawn
        if requests.prefixes is not None
    ]
    assert len(shares) == 10
    # Only what lies across the seam of a pass can differ: 2,000 blocks are some 75 of its 2,000 requests.
    assert shares == pytest.approx([recorded.block_share] * 10, abs=0.01)
    # A shuffled trace has other distances, and the cache shows it: at least twice what the seam may do.
    rows = np.random.default_rng(1).permutation(len(trace))
    shuffled = PromptBlocks.cut(trace.prefixes.take(rows), trace.prompt[rows], 512).found_by_lru(2_000)
    assert abs(shuffled.block_share - recorded.block_share) > 0.02


def test_a_resample_with_prefixes_keeps_the_rate_over_time(mooncake: TraceDemand) -> None:
    bare = TraceDemand(replace(mooncake.trace, prefixes=None))
    arrivals = [demand.draw(3.0, 600.0, seed()).arrival for demand in (mooncake, bare)]
    assert arrivals[0].tolist() == arrivals[1].tolist()
    assert bare.draw(3.0, 600.0, seed()).prefixes is None


def test_a_description_says_what_a_cache_could_find(mooncake: TraceDemand) -> None:
    record = json.loads(json.dumps(mooncake.description(), allow_nan=False))
    assert record["prefix_reuse"] == reuse_of(mooncake.recorded()).token_share
    # As the shipped file's description states it.
    assert record["prefix_reuse"] == pytest.approx(0.2939, abs=5e-5)


def test_synthetic_prefixes_have_a_stream_of_their_own() -> None:
    shared = replace(SYNTHETIC, prefix=SharedPrefixes(300, count=4, share=0.5))
    plain, with_prefixes = (which.draw(10.0, 100.0, seed()) for which in (SYNTHETIC, shared))
    for column in ("arrival", "prompt", "output"):
        assert getattr(plain, column).tolist() == getattr(with_prefixes, column).tolist()
    assert plain.prefixes is None
    slow, fast = (shared.draw(rate, 100.0, seed()) for rate in (10.0, 20.0))
    assert slow.prefixes is not None
    assert fast.prefixes is not None
    assert [slow.prefixes.path(row) for row in range(len(slow))] == [
        fast.prefixes.path(row) for row in range(len(slow))
    ]


def test_a_synthetic_description_states_the_expected_reuse() -> None:
    demand = SyntheticDemand(
        PoissonArrivals(), FixedLength(1000), FixedLength(9), SharedPrefixes(250, count=2, share=0.8)
    )
    record = json.loads(json.dumps(demand.description(), allow_nan=False))
    assert record["prefix_reuse"] == pytest.approx(0.2, rel=1e-12)  # rounding only
    assert "prefix SharedPrefixes(tokens=250, count=2, share=0.8)" in record["source"]
