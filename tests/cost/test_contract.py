"""What every step cost promises the engine, whatever it rests on."""

import pickle
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capsim.cost import (
    BatchShape,
    Chunk,
    ConstantCost,
    LinearCost,
    ProfileCost,
    RooflineCost,
    StepCost,
    load_profile,
)
from capsim.cost.step import grown
from tests.cost.hardware import H200, LLAMA_8B, LLAMA_70B
from tests.cost.profiles import document, write


@cache
def costs() -> dict[str, StepCost]:
    with TemporaryDirectory() as folder:
        profile = load_profile(write(Path(folder), document()))
    return {
        "constant": ConstantCost(0.01),
        "linear": LinearCost(5e-3, 2e-5, 1e-4, 1e-9, 1e-5, 3e-8),
        "roofline": RooflineCost(LLAMA_8B, H200),
        "roofline tp8 fp8": RooflineCost(LLAMA_70B, H200, 8, "fp8", "fp8"),
        "profile": ProfileCost(profile, LLAMA_8B, "bfloat16", "bfloat16", 1),
    }


KINDS = ["constant", "linear", "roofline", "roofline tp8 fp8", "profile"]
kinds = st.sampled_from(KINDS)


@st.composite
def decode_batches(draw: st.DrawFn) -> BatchShape:
    decodes = draw(st.integers(1, 300))
    return BatchShape((), decodes, decodes * draw(st.integers(1, 20_000)) + draw(st.integers(0, decodes - 1)))


@given(kind=kinds, batch=decode_batches())
def test_a_line_begins_exactly_with_the_step(kind: str, batch: BatchShape) -> None:
    assert costs()[kind].line(batch).first == costs()[kind].step(batch)


@given(kind=kinds, batch=decode_batches(), share=st.floats(0, 1))
def test_a_line_holds_for_all_its_steps(kind: str, batch: BatchShape, share: float) -> None:
    line = costs()[kind].line(batch)
    assert line.steps >= 1
    ahead = int(share * min(line.steps - 1, 100_000))
    for steps in (ahead, min(line.steps - 1, 100_000)):
        expected = costs()[kind].step(grown(batch, steps))
        # Rounding of a handful of operations.
        assert line.first + steps * line.slope == pytest.approx(expected, rel=1e-12)


@given(kind=kinds, batch=decode_batches(), steps=st.integers(1, 400))
def test_a_total_is_the_sum_of_its_steps(kind: str, batch: BatchShape, steps: int) -> None:
    expected = sum(costs()[kind].step(grown(batch, i)) for i in range(steps))
    assert costs()[kind].total(batch, steps) == pytest.approx(
        expected, rel=1e-9
    )  # 400 roundings are far less


@given(kind=kinds, batch=decode_batches(), steps=st.integers(1, 30_000))
def test_steps_until_inverts_the_total(kind: str, batch: BatchShape, steps: int) -> None:
    cost = costs()[kind]
    half = cost.step(grown(batch, steps - 1)) / 2
    assert cost.steps_until(batch, cost.total(batch, steps) - half) == steps


@given(kind=kinds, batch=decode_batches(), more=st.integers(1, 5000))
def test_more_context_more_tokens_and_more_decodes_never_take_less(
    kind: str, batch: BatchShape, more: int
) -> None:
    cost = costs()[kind]
    seconds = cost.step(batch)
    slack = 1 + 1e-12  # rounding: the same sum in another order
    assert cost.step(batch._replace(context=batch.context + more)) * slack >= seconds
    bigger = batch._replace(decodes=batch.decodes + 1, context=batch.context + batch.context // batch.decodes)
    assert cost.step(bigger) * slack >= seconds
    mixed = [cost.step(batch._replace(chunks=(Chunk(new, 0),))) for new in (more, more + 1)]
    assert seconds <= mixed[0] * slack <= mixed[1] * slack**2


@given(kind=kinds, new=st.integers(1, 8192), past=st.integers(0, 20_000))
def test_a_chunk_after_more_tokens_never_takes_less(kind: str, new: int, past: int) -> None:
    first, second = (
        costs()[kind].step(BatchShape((Chunk(new, tokens),), 0, 0)) for tokens in (past, past + 1)
    )
    assert 0 < first <= second


@pytest.mark.parametrize("kind", KINDS)
def test_a_cost_survives_the_way_to_a_worker(kind: str) -> None:
    cost = costs()[kind]
    batch = BatchShape((Chunk(100, 50),), 7, 7000)
    expected = cost.step(batch), cost.line(BatchShape((), 7, 7000))
    copy = pickle.loads(pickle.dumps(cost))
    assert (copy.step(batch), copy.line(BatchShape((), 7, 7000))) == expected
    assert copy.step(BatchShape((), 11, 900)) == cost.step(BatchShape((), 11, 900))


@pytest.mark.parametrize("kind", KINDS[:-1])
def test_nothing_is_outside_where_nothing_was_measured(kind: str) -> None:
    column = np.array([1, 10**9])
    outside = costs()[kind].outside(column, column, column, column, column)
    assert outside.dtype == np.bool_
    assert outside.tolist() == [False, False]


@pytest.mark.parametrize("kind", KINDS)
def test_a_cost_says_what_it_rests_on(kind: str) -> None:
    cost = costs()[kind]
    assert cost.source in {"measured", "analytic", "stated"}
    assert cost.description
    tags = {factor.tag for factor in cost.describe().values()}
    assert tags
    assert tags <= {"measured", "data sheet", "fitted", "assumed", "stated"}
