"""The fast engine against the plain one: same tokens, same preemptions, same times."""

from __future__ import annotations

import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from capsim.cost import LinearCost, ProfileCost, load_profile
from capsim.cost.shape import BatchShape
from capsim.cost.step import UNBOUNDED, Line, StepCost
from capsim.engine import EngineConfiguration, Replica, Sequence
from capsim.engine.leap import LEAP_FIELDS
from capsim.errors import Infeasible
from tests.cost.hardware import LLAMA_8B
from tests.cost.profiles import SKEW, document, mixed, write
from tests.engine.replicas import leap_table
from tests.reference import NoHeadway, ReferenceReplica, ReferenceSequence
from tests.reference_hybrid import HybridReference
from tests.reference_tiers import ReferenceTier
from tests.strategies import Case, cases, hybrid_cases, offload_cases

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


def plain_replica(case: Case, cost: StepCost) -> ReferenceReplica:
    settings = {
        "usable_blocks": case.usable_blocks,
        "block_size": case.block_size,
        "max_num_seqs": case.max_num_seqs,
        "max_num_batched_tokens": case.max_num_batched_tokens,
        "reserve_full_prompt": case.reserve_full_prompt,
        "watermark_blocks": case.watermark_blocks,
        "long_prefill_token_threshold": case.long_prefill_token_threshold,
        "by_priority": case.by_priority,
    }
    if case.groups is not None:
        groups = case.groups
        return HybridReference(
            cost,
            seeing_all=groups.growing - groups.windowed,
            window=groups.window,
            windowed=groups.windowed,
            states=groups.constant,
            **settings,
        )
    tiers = [ReferenceTier(tier.blocks, tier.seconds_per_block, tier.latency) for tier in case.tiers]
    return ReferenceReplica(cost, enable_prefix_caching=case.enable_prefix_caching, tiers=tiers, **settings)


def plain_sequences(case: Case) -> list[ReferenceSequence]:
    return [
        ReferenceSequence(i, *request, path=path, priority=case.priority(i))
        for i, (request, path) in enumerate(zip(case.requests, case.paths, strict=True))
    ]


def reference(case: Case, cost: StepCost) -> tuple[ReferenceReplica, list[ReferenceSequence]]:
    replica, sequences = plain_replica(case, cost), plain_sequences(case)
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
        tiers=case.tiers,
        groups=case.groups,
        long_prefill_token_threshold=case.long_prefill_token_threshold,
        scheduling_policy="priority" if case.by_priority else "fcfs",
    )


def sequences_of(case: Case) -> list[Sequence]:
    return [
        Sequence(i, prompt, output, time, path, case.priority(i))
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


def same_if_it_ends(case: Case) -> None:
    """Serve a case with both, step by step the same; or neither gets on."""
    try:
        plain, replica = same(case)
    except NoHeadway:
        with pytest.raises(Infeasible, match="the engine gets no further"):
            fast(case, DYADIC)
    else:
        leaps_are_the_steps(plain, replica)


def times_if_it_ends(
    case: Case, cost: StepCost, longest_plan: int | None = None
) -> list[tuple[float, float, float]] | None:
    """None: it does not end."""
    try:
        return times(fast(case, cost, longest_plan)[1])
    except Infeasible:
        return None


def times(sequences: list[Sequence] | list[ReferenceSequence]) -> list[tuple[float, float, float]]:
    return [(s.scheduled, s.first_token, s.finish) for s in sequences]


def same(case: Case, cost: StepCost = DYADIC) -> tuple[ReferenceReplica, Replica]:
    """Serve a case with both: all that happens to a sequence is the same, and when it happens."""
    plain, expected = reference(case, cost)
    replica, sequences = fast(case, cost)
    assert [s.preemptions for s in sequences] == [s.preemptions for s in expected]
    assert [(s.cached, s.found, s.loaded) for s in sequences] == [
        (s.cached, s.found, s.loaded) for s in expected
    ]
    assert times(sequences) == times(expected)
    return plain, replica


@settings(max_examples=500, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(cases())
def test_exact_with_dyadic_costs(case: Case) -> None:
    plain, replica = same(case)
    assert sum(int(row[1]) for row in leap_table(replica)) == len(plain.steps)


@settings(max_examples=500, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(offload_cases())
def test_exact_with_tiers(case: Case) -> None:
    leaps_are_the_steps(*same(case))


@settings(max_examples=500, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(hybrid_cases())
def test_exact_with_windows_and_states(case: Case) -> None:
    leaps_are_the_steps(*same(case))


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
@given(st.one_of(cases(), offload_cases(), hybrid_cases()), st.integers(1, 7))
def test_longest_plan_changes_nothing(case: Case, longest_plan: int) -> None:
    """The horizon is a matter of speed: any cap on it gives the same run."""
    replica, sequences = fast(case, DYADIC)
    capped, same = fast(case, DYADIC, longest_plan)
    assert times(sequences) == times(same)
    assert capped.plans >= replica.plans


def leaps_are_the_steps(plain: ReferenceReplica, replica: Replica) -> None:
    """The leaps expand to the steps of the plain replica; their blocks and room are those of their first steps."""
    leaps, expanded = leap_table(replica), []
    field = LEAP_FIELDS.index
    for row in leaps:
        start, steps, tokens, _, _, decodes, context, _, _, _, first, slope, _, _ = row
        for step in range(int(steps)):
            seconds = first + step * slope
            expanded.append((start, seconds, tokens, decodes, context + step * decodes))
            start += seconds
    assert expanded == [(s.start, s.seconds, s.prefill_tokens, s.decodes, s.context) for s in plain.steps]
    ends = leaps[:, field("steps")].cumsum().astype(int)
    firsts = [
        plain.steps[end - int(steps)] for end, steps in zip(ends, leaps[:, field("steps")], strict=True)
    ]
    assert leaps[:, field("blocks")].tolist() == [plain.usable - step.free for step in firsts]
    assert leaps[:, field("unfilled")].tolist() == [step.unfilled for step in firsts]
    if not isinstance(plain, HybridReference):  # whose windows free blocks within a leap
        lasts = [plain.usable - plain.steps[end - 1].free for end in ends]
        assert (leaps[:, field("blocks")] + leaps[:, field("growth")]).tolist() == lasts


@settings(max_examples=200, deadline=None)
@given(cases())
def test_leaps_expand_to_the_reference_steps(case: Case) -> None:
    leaps_are_the_steps(*same(case))


@settings(max_examples=100, deadline=None)
@given(st.one_of(cases(), offload_cases(), hybrid_cases()))
def test_resumed_gaps_are_the_gaps_of_preempted_sequences(case: Case) -> None:
    _, expected = reference(case, DYADIC)
    replica, _ = fast(case, DYADIC)
    decoded = sum(int(row[1] * row[5]) for row in leap_table(replica))
    assert decoded + len(replica.resumed_gaps) == sum(s.output - 1 for s in expected)
    gaps = [b - a for s in expected for a, b in zip(s.token_times, s.token_times[1:], strict=False)]
    assert sum(gaps) == pytest.approx(
        sum(row[5] * (row[1] * row[10] + row[11] * row[1] * (row[1] - 1) / 2) for row in leap_table(replica))
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
@given(st.one_of(cases(), offload_cases(), hybrid_cases()))
def test_unequal_contexts_are_known_exactly(case: Case) -> None:
    _, expected = reference(case, SpreadCost())
    _, sequences = fast(case, SpreadCost())
    assert times(sequences) == times(expected)


class WindowCost(StepCost):
    """A cost of the context inside a window, exact in binary; its line holds until a decode fills the window."""

    source = "stated"
    description = "test"
    needs_window = True

    def step(self, batch: BatchShape) -> float:
        return DYADIC.step(batch) + batch.windowed_context * 2.0**-18

    def line(self, batch: BatchShape) -> Line:
        slope = DYADIC.line(batch).slope + batch.filling * 2.0**-18
        return Line(self.step(batch), slope, UNBOUNDED)


@settings(max_examples=300, deadline=None)
@given(hybrid_cases().filter(lambda case: case.groups is not None and case.groups.windowed > 0))
def test_contexts_in_a_window_are_known_exactly(case: Case) -> None:
    leaps_are_the_steps(*same(case, WindowCost()))


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


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.one_of(cases(), offload_cases()).filter(lambda case: case.enable_prefix_caching))
def test_evictions_are_those_of_content_that_somebody_could_ask_for(case: Case) -> None:
    """Shared content always; a sequence's own only while it may be preempted again, so it is bounded, not told."""
    plain, replica = same(case)
    shared = sum(not isinstance(whose, tuple) for whose, _ in plain.pool.evicted)
    if any(sequence.preemptions for sequence in replica.finished):
        assert shared <= replica.evicted <= len(plain.pool.evicted)
    else:
        assert replica.evicted == shared
