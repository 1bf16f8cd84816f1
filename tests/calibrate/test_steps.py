from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from calibrate.draft import Draft
from calibrate.importers.step_source import StepSource
from calibrate.importers.step_split import HELD_OUT_OF
from calibrate.importers.steps import draft_of
from calibrate.regime import Kind, kind_of
from calibrate.step_fit import MeasuredStep, fit, thinned
from capsim.cost import BatchShape, Chunk, ProfileCost
from capsim.errors import BadInput
from tests.calibrate.step_law import (
    DECODES,
    FIXED,
    MODEL,
    NEW,
    PER_TOKEN,
    RATES,
    REQUEST,
    SLOWER,
    decode_steps,
    law,
    mixed_steps,
    prefill_steps,
    source_of,
)

EXACT = 1e-5
"""Relative; the least squares are solved to about 1e-9, and a file keeps 6 significant digits."""
STEPS = (*decode_steps(), *prefill_steps())


def cost_of(draft: Draft) -> ProfileCost:
    return ProfileCost(draft.profile(), MODEL, "bfloat16", "bfloat16", 1)


def errors_of(draft: Draft, steps: tuple[MeasuredStep, ...]) -> list[float]:
    cost = cost_of(draft)
    return [abs(cost.step(step.batch) / step.seconds - 1) for step in steps]


def scaled(step: MeasuredStep, factor: float) -> MeasuredStep:
    return replace(step, seconds=factor * step.seconds)


def test_the_fit_finds_the_pieces_of_steps_that_consist_of_them() -> None:
    found = fit(STEPS, RATES)
    assert found.counts == tuple(sorted({*DECODES, *NEW}))
    assert found.tokens == pytest.approx([FIXED + PER_TOKEN * count for count in found.counts], rel=EXACT)
    slopes = [SLOWER * RATES.per_context * count for count in found.decodes]
    assert found.slopes == pytest.approx(slopes, rel=EXACT)
    assert found.per_pair == pytest.approx(SLOWER * RATES.per_pair, rel=EXACT)
    assert not found.assumed_rate


def test_a_profile_gives_back_the_steps_it_was_made_of() -> None:
    draft = draft_of(source_of((*STEPS, *mixed_steps())), REQUEST)
    assert max(errors_of(draft, STEPS)) < EXACT
    assert draft.held_out
    assert max(error.p90 for error in draft.held_out) < EXACT


def test_what_no_piece_explains_stays_at_the_shape_that_was_measured() -> None:
    # A kernel that is 30 % slower at one length, in the middle of the table, and nowhere else.
    odd = BatchShape((Chunk(1024, 1024),), 0, 0)
    steps = tuple(scaled(step, 1.3) if step.batch.chunks == odd.chunks else step for step in STEPS)
    without = [step for step in decode_steps() if step.batch.decodes <= 4]
    draft = draft_of(source_of((*without, *(step for step in steps if step.batch.chunks))), REQUEST)
    cost = cost_of(draft)
    # The fall to the next length, which a table must not have, moves it by half of the excess at most.
    assert 1.15 * law(odd) < cost.step(odd) < 1.31 * law(odd)


def test_neither_the_order_of_the_file_nor_repetition_has_a_say() -> None:
    steps = (*STEPS, *mixed_steps())
    once = draft_of(source_of(steps), REQUEST).text()
    assert draft_of(source_of(tuple(reversed(steps))), REQUEST).text() == once
    assert draft_of(source_of((*steps, *steps)), REQUEST).text() == once


def test_shapes_that_are_held_out_have_no_say_in_the_tables() -> None:
    draft = draft_of(source_of(STEPS), REQUEST)
    cases = sum(error.cases for error in draft.held_out)
    # One shape in HELD_OUT_OF by a hash, and never an end of a row: some, and fewer than that share.
    assert 0 < cases <= len(STEPS) / HELD_OUT_OF
    silent = 0
    for index, step in enumerate(STEPS):
        changed = draft_of(source_of((*STEPS[:index], scaled(step, 1.1), *STEPS[index + 1 :])), REQUEST)
        if tables_of(changed) == tables_of(draft):
            silent += 1
            assert changed.held_out != draft.held_out
    assert silent == cases


def tables_of(draft: Draft) -> tuple[object, ...]:
    attention = draft.attention
    return draft.operators, attention.prefill.values.tolist(), attention.decode.values.tolist()


def test_errors_are_counted_by_kind_of_step() -> None:
    draft = draft_of(source_of((*STEPS, *mixed_steps()[:-1])), REQUEST)
    kinds = {(error.regime, error.size): error.cases for error in draft.held_out}
    mixed = [kind_of(step.batch) for step in mixed_steps()[:-1]]
    assert kinds["mixed", "small"] == mixed.count(Kind("mixed", "small"))
    assert kinds["mixed", "large"] == mixed.count(Kind("mixed", "large"))
    assert {"prefill", "decode"} <= {regime for regime, _ in kinds}


def test_a_noisy_step_pulls_the_fit_less() -> None:
    # One of the four contexts of 64 decodes is 20 % off.
    index = next(i for i, step in enumerate(STEPS) if step.batch.decodes == 64)
    off = scaled(STEPS[index], 1.2)

    def pulled(step: MeasuredStep) -> float:
        found = fit((*STEPS[:index], step, *STEPS[index + 1 :]), RATES)
        return abs(found.token_seconds(64) / (FIXED + 64 * PER_TOKEN) - 1)

    assert 0 < pulled(replace(off, noisy=True)) < pulled(off)


def test_noisy_shapes_are_kept_and_counted() -> None:
    steps = (*(replace(step, noisy=True) for step in STEPS[:3]), *STEPS[3:])
    draft = draft_of(source_of(steps), REQUEST)
    assert any("3 shapes are noisy" in note for note in draft.provenance.notes)
    assert draft.ranges["tokens"] == (1, 8192)


def test_the_rate_of_a_chunk_is_assumed_where_no_step_tells_it() -> None:
    steps = (*decode_steps(), *prefill_steps(past=(0,)))
    draft = draft_of(source_of(steps), REQUEST)
    assert draft.attention.prefill.tag == "assumed"
    assert any("roofline's seconds a pair" in note for note in draft.provenance.notes)
    # Whatever the rate, a chunk that was measured alone keeps its seconds.
    kept = tuple(step for step in steps if step.batch.chunks)
    assert sorted(errors_of(draft, kept))[len(kept) // 2] < EXACT


def test_the_rate_of_a_chunk_is_told_by_two_chunks_of_half_the_length() -> None:
    two = [
        BatchShape((Chunk(count // 2, 0), Chunk(count - count // 2, 0)), 0, 0)
        for count in (512, 1024, 2048, 4096)
    ]
    pairs = tuple(MeasuredStep(batch, law(batch)) for batch in two)
    found = fit((*decode_steps(), *prefill_steps(past=(0,)), *pairs), RATES)
    assert found.per_pair == pytest.approx(SLOWER * RATES.per_pair, rel=EXACT)


def test_a_full_grid_of_mixed_steps_is_a_table_and_one_with_a_hole_is_a_test() -> None:
    longer = tuple(scaled(step, 1.15) for step in mixed_steps())
    full = draft_of(source_of((*STEPS, *longer)), REQUEST)
    assert full.attention.mixed is not None
    assert max(errors_of(full, longer)) < EXACT
    assert any("prefill and decode added up would be 13.0 % off" in note for note in full.provenance.notes)
    holed = draft_of(source_of((*STEPS, *longer[1:])), REQUEST)
    assert holed.attention.mixed is None
    mixed = [error for error in holed.held_out if error.regime == "mixed"]
    assert sum(error.cases for error in mixed) == len(longer) - 1
    assert [error.bias for error in mixed] == pytest.approx([1 / 1.15 - 1] * len(mixed), abs=EXACT)


def test_tables_never_fall_however_noisy_the_steps() -> None:
    random = np.random.default_rng(7)
    steps = tuple(scaled(step, float(random.uniform(0.8, 1.25))) for step in (*STEPS, *mixed_steps()))
    draft = draft_of(source_of(steps), REQUEST)
    for grid in (draft.attention.prefill, draft.attention.decode):
        for axis in range(grid.values.ndim):
            assert (np.diff(grid.values, axis=axis) >= 0).all()
    assert (np.diff(draft.operators[0].curve.seconds) >= 0).all()
    # The reader refuses a table that falls.
    assert draft.profile().source


def test_scattered_counts_are_thinned_to_a_geometric_grid() -> None:
    axis = thinned(range(1, 4001))
    assert axis[0] == 1
    assert axis[-1] == 4000
    assert len(axis) <= 65
    assert thinned([5, 3, 3]) == (3, 5)


def test_what_the_source_lacks_is_assumed_and_noted() -> None:
    bare = source_of(STEPS, holds_host=False)
    draft = draft_of(bare, REQUEST)
    assert (draft.host, draft.host_tag) == (0.0005, "assumed")
    assert [(operator.name, operator.tag) for operator in draft.operators] == [
        ("step_tokens", "fitted"),
        ("lm_head", "assumed"),
    ]
    stated = draft_of(bare, replace(REQUEST, host_overhead=0.002))
    assert stated.host == 0.002
    inside = draft_of(source_of(STEPS), REQUEST)
    assert (inside.host, inside.host_tag, len(inside.operators)) == (0.0, "measured", 1)


@pytest.mark.parametrize(
    ("steps", "says"),
    [
        (decode_steps(contexts=(2048,)), "0 of 7 numbers of decodes were measured at two contexts or more"),
        (decode_steps(), "steps of chunks alone were measured at 0 numbers of tokens"),
        (prefill_steps(), "0 of 0 numbers of decodes"),
    ],
)
def test_steps_that_leave_a_table_without_a_base_are_refused(
    steps: tuple[MeasuredStep, ...], says: str
) -> None:
    with pytest.raises(BadInput, match=says):
        draft_of(source_of(steps), REQUEST)


@pytest.mark.parametrize(
    ("factor", "says"), [(1e-3, "is the file in milliseconds"), (1e-6, "is the file in microseconds")]
)
def test_times_in_another_unit_are_refused(factor: float, says: str) -> None:
    # A file of milliseconds, read as seconds, has 1000 times the seconds.
    steps = tuple(scaled(step, 1 / factor) for step in STEPS)
    with pytest.raises(BadInput, match=says):
        draft_of(source_of(steps), REQUEST)


def test_an_unlikely_machine_is_not_taken_for_a_wrong_unit() -> None:
    slow: StepSource = source_of(tuple(scaled(step, 10.0) for step in STEPS))
    assert draft_of(slow, REQUEST).profile().source


def test_a_source_without_a_gpu_needs_one() -> None:
    with pytest.raises(BadInput, match="which GPU was measured"):
        draft_of(source_of(STEPS), replace(REQUEST, gpu=None))


def test_a_host_that_is_inside_the_steps_is_not_added_again() -> None:
    with pytest.raises(BadInput, match="the steps include it"):
        draft_of(source_of(STEPS), replace(REQUEST, host_overhead=0.001))
