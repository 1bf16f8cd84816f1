from __future__ import annotations

import math

import pytest

from capsim.cost import BatchShape, Chunk, LinearCost, RooflineCost, StepCost
from capsim.cost.offset import OffsetCost
from capsim.cost.step import grown
from capsim.errors import BadInput
from tests.cost.hardware import H200, LLAMA_8B

LINEAR = LinearCost(base=2.0**-7, per_prefill_token=2.0**-16, per_context_token=2.0**-20)
OVERHEAD = 2.0**-9
COSTS = [LINEAR, RooflineCost(LLAMA_8B, H200)]
DECODES = BatchShape((), 7, 7 * 300)


@pytest.mark.parametrize("cost", COSTS)
@pytest.mark.parametrize("batch", [DECODES, BatchShape((Chunk(128, 64),), 3, 900)])
def test_every_step_is_longer_by_the_same(cost: StepCost, batch: BatchShape) -> None:
    assert OffsetCost(cost, OVERHEAD).step(batch) == cost.step(batch) + OVERHEAD


@pytest.mark.parametrize("cost", COSTS)
def test_a_line_is_the_steps_that_it_stands_for(cost: StepCost) -> None:
    offset = OffsetCost(cost, OVERHEAD)
    line = offset.line(DECODES)
    assert line.first == offset.step(DECODES)
    last = min(line.steps - 1, 500)
    # Rounding of a handful of operations.
    assert line.first + last * line.slope == pytest.approx(offset.step(grown(DECODES, last)), rel=1e-12)


def test_a_total_grows_by_the_overhead_of_its_steps() -> None:
    """Dyadic weights, so exact."""
    assert OffsetCost(LINEAR, OVERHEAD).total(DECODES, 90) == LINEAR.total(DECODES, 90) + 90 * OVERHEAD


def test_nothing_added_changes_nothing() -> None:
    assert OffsetCost(LINEAR, 0.0).line(DECODES) == LINEAR.line(DECODES)


def test_it_says_what_was_added() -> None:
    offset = OffsetCost(LINEAR, OVERHEAD)
    assert "1.953 ms more in every step" in offset.description
    assert offset.describe()["added to every step"].tag == "fitted"
    assert offset.source == LINEAR.source


@pytest.mark.parametrize("seconds", [-1e-3, math.nan, math.inf])
def test_no_step_is_made_shorter(seconds: float) -> None:
    with pytest.raises(BadInput, match="not negative"):
        OffsetCost(LINEAR, seconds)
