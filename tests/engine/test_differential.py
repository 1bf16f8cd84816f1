"""The fast engine against the plain one: same tokens, same preemptions, same times."""

from __future__ import annotations

import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from capsim.cost import LinearCost, ProfileCost, load_profile
from capsim.cost.shape import BatchShape
from capsim.cost.step import Line, StepCost
from capsim.engine import EngineConfiguration, Replica, Sequence
from tests.cost.hardware import LLAMA_8B
from tests.cost.profiles import SKEW, document, mixed, write
from tests.reference import ReferenceReplica, ReferenceSequence
from tests.strategies import Case, cases

DYADIC = LinearCost(
    base=2.0**-7,
    per_prefill_token=2.0**-16,
    per_chunk=2.0**-12,
    per_query_key_pair=2.0**-24,
    per_decode=2.0**-14,
    per_context_token=2.0**-20,
)
"""Every sum of these costs is exact in double precision, so that times can be compared for equality."""

PREEMPTIONS = 0


class KinkedCost(StepCost):
    """Piecewise linear in context with kinks at odd places, and coefficients that are not dyadic."""

    source = "stated"
    description = "test"

    def __init__(self) -> None:
        self.kinks = [0.0, 37.0, 151.0, 600.0, math.inf]
        self.slopes = [1.3e-6, 4.1e-6, 0.7e-6, 2.9e-6]

    def step(self, batch: BatchShape) -> float:
        if not batch.chunks:
            return self.line(batch).first
        pairs = sum(new * past + new * (new + 1) / 2 for new, past in batch.chunks)
        tokens = sum(new for new, _ in batch.chunks)
        decode = self.line(batch).first if batch.decodes else 0.011
        return decode + 3.1e-5 * tokens + 7e-10 * pairs

    def line(self, batch: BatchShape) -> Line:
        seconds, start = 0.011 + 1.7e-4 * math.log2(1 + batch.decodes), 0.0
        for end, slope in zip(self.kinks[1:], self.slopes, strict=True):
            if batch.context < end:
                seconds += slope * (batch.context - start)
                room = (end - batch.context) / batch.decodes
                steps = 1 << 60 if math.isinf(end) else int(room) + 1
                return Line(seconds, slope * batch.decodes, steps)
            seconds += slope * (end - start)
            start = end
        raise AssertionError("unreachable")


def reference(case: Case, cost: StepCost) -> tuple[ReferenceReplica, list[ReferenceSequence]]:
    replica = ReferenceReplica(
        cost,
        usable_blocks=case.usable_blocks,
        block_size=case.block_size,
        max_num_seqs=case.max_num_seqs,
        max_num_batched_tokens=case.max_num_batched_tokens,
        reserve_full_prompt=case.reserve_full_prompt,
        enable_prefix_caching=case.enable_prefix_caching,
        watermark_blocks=case.watermark_blocks,
    )
    sequences = [
        ReferenceSequence(i, *request, path=path)
        for i, (request, path) in enumerate(zip(case.requests, case.paths, strict=True))
    ]
    replica.run(sequences)
    return replica, sequences


def configuration(case: Case) -> EngineConfiguration:
    return EngineConfiguration(
        num_gpu_blocks=case.usable_blocks + 1,
        block_size=case.block_size,
        max_num_seqs=case.max_num_seqs,
        max_num_batched_tokens=case.max_num_batched_tokens,
        reserve_full_prompt=case.reserve_full_prompt,
        enable_prefix_caching=case.enable_prefix_caching,
        watermark=(case.watermark_blocks + 0.5) / (case.usable_blocks + 1),
    )


def sequences_of(case: Case) -> list[Sequence]:
    return [
        Sequence(i, prompt, output, time, path)
        for i, ((time, prompt, output), path) in enumerate(zip(case.requests, case.paths, strict=True))
    ]


def fast(case: Case, cost: StepCost, longest_plan: int | None = None) -> tuple[Replica, list[Sequence]]:
    replica = Replica(configuration(case), cost, longest_plan=longest_plan)
    sequences = sequences_of(case)
    for sequence in sequences:
        replica.submit(sequence, sequence.submitted)
    replica.advance(math.inf)
    assert replica.blocks == 0
    assert replica.outstanding == 0
    assert len(replica.finished) == len(sequences)
    return replica, sequences


def times(sequences: list[Sequence] | list[ReferenceSequence]) -> list[tuple[float, float, float]]:
    return [(s.scheduled, s.first_token, s.finish) for s in sequences]


@settings(max_examples=500, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(cases())
def test_exact_with_dyadic_costs(case: Case) -> None:
    plain, expected = reference(case, DYADIC)
    replica, sequences = fast(case, DYADIC)
    assert [s.preemptions for s in sequences] == [s.preemptions for s in expected]
    assert times(sequences) == times(expected)
    assert [(s.cached, s.found) for s in sequences] == [(s.cached, s.found) for s in expected]
    steps = sum(int(row[1]) for row in replica.leaps())
    assert steps == len(plain.steps)


@settings(max_examples=500, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(cases(arrival_unit=0.0123457))
def test_close_with_kinked_costs(case: Case) -> None:
    """To 1e-9 s, the bound that the rounding of at most a few thousand added step times keeps by far."""
    _, expected = reference(case, KinkedCost())
    _, sequences = fast(case, KinkedCost())
    assert [s.preemptions for s in sequences] == [s.preemptions for s in expected]
    for mine, theirs in zip(times(sequences), times(expected), strict=True):
        assert mine == pytest.approx(theirs, abs=1e-9)


@settings(max_examples=100, deadline=None)
@given(cases(), st.integers(1, 7))
def test_longest_plan_changes_nothing(case: Case, longest_plan: int) -> None:
    """The horizon is a matter of speed: any cap on it gives the same run."""
    replica, sequences = fast(case, DYADIC)
    capped, same = fast(case, DYADIC, longest_plan)
    assert times(sequences) == times(same)
    assert capped.plans >= replica.plans


@settings(max_examples=100, deadline=None)
@given(cases())
def test_leaps_expand_to_the_reference_steps(case: Case) -> None:
    plain, _ = reference(case, DYADIC)
    replica, _ = fast(case, DYADIC)
    expanded = []
    for row in replica.leaps():
        start, steps, tokens, _, _, decodes, context, _, _, _, first, slope, _, _ = row
        for step in range(int(steps)):
            seconds = first + step * slope
            expanded.append((start, seconds, tokens, decodes, context + step * decodes))
            start += seconds
    assert expanded == [(s.start, s.seconds, s.prefill_tokens, s.decodes, s.context) for s in plain.steps]


@settings(max_examples=100, deadline=None)
@given(cases())
def test_resumed_gaps_are_the_gaps_of_preempted_sequences(case: Case) -> None:
    _, expected = reference(case, DYADIC)
    replica, _ = fast(case, DYADIC)
    decoded = sum(int(row[1] * row[5]) for row in replica.leaps())
    assert decoded + len(replica.resumed_gaps) == sum(s.output - 1 for s in expected)
    gaps = [b - a for s in expected for a, b in zip(s.token_times, s.token_times[1:], strict=False)]
    assert sum(gaps) == pytest.approx(
        sum(row[5] * (row[1] * row[10] + row[11] * row[1] * (row[1] - 1) / 2) for row in replica.leaps())
        + sum(replica.resumed_gaps),
        rel=1e-12,
    )


class SpreadCost(StepCost):
    """A cost of the longest context and of the squared ones, exact in binary; each step is its own line."""

    source = "stated"
    description = "test"
    needs_spread = True

    def step(self, batch: BatchShape) -> float:
        spread = batch.squared_context * 2.0**-30 + batch.largest_context * 2.0**-16
        return DYADIC.step(batch) + spread

    def line(self, batch: BatchShape) -> Line:
        return Line(self.step(batch), 0.0, 1)


@settings(max_examples=200, deadline=None)
@given(cases())
def test_unequal_contexts_are_known_exactly(case: Case) -> None:
    _, expected = reference(case, SpreadCost())
    _, sequences = fast(case, SpreadCost())
    assert times(sequences) == times(expected)


@pytest.fixture(scope="module")
def profile_cost(tmp_path_factory: pytest.TempPathFactory) -> ProfileCost:
    content = document()
    content["attention"] |= {"mixed": mixed(1.3), "skew": SKEW}
    content["graph_sizes"] = [1, 2, 4, 8, 16, 24, 32]
    path = write(tmp_path_factory.mktemp("profile"), content)
    return ProfileCost(load_profile(path), LLAMA_8B, "bfloat16", "bfloat16", 1)


@settings(max_examples=200, deadline=None)
@given(case=cases(arrival_unit=0.0123457))
def test_close_with_a_profile(profile_cost: ProfileCost, case: Case) -> None:
    """Tables with kinks, mixed batches, unequal lengths and padding; to 1e-9 s as above."""
    _, expected = reference(case, profile_cost)
    _, sequences = fast(case, profile_cost)
    assert [s.preemptions for s in sequences] == [s.preemptions for s in expected]
    for mine, theirs in zip(times(sequences), times(expected), strict=True):
        assert mine == pytest.approx(theirs, abs=1e-9)
