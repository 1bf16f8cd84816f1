import pytest

from capsim.cost import UNBOUNDED, BatchShape, Chunk, ConstantCost, LinearCost
from capsim.errors import BadInput


def test_a_constant_cost_ignores_the_batch() -> None:
    cost = ConstantCost(0.25)
    assert cost.step(BatchShape((Chunk(512, 0),), 3, 1000)) == 0.25
    assert cost.line(BatchShape((), 3, 1000)) == (0.25, 0.0, UNBOUNDED)
    assert cost.total(BatchShape((), 3, 1000), 40) == 10
    assert cost.steps_until(BatchShape((), 3, 1000), 10) == 40
    assert cost.source == "stated"


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf")])
def test_a_constant_must_be_a_positive_number(seconds: float) -> None:
    with pytest.raises(BadInput, match="expected a positive number"):
        ConstantCost(seconds)


def test_a_linear_cost_adds_up_its_weights() -> None:
    cost = LinearCost(1, 2**-3, 2**-2, 2**-10, 2**-4, 2**-12)
    batch = BatchShape((Chunk(8, 16), Chunk(4, 0)), decodes=3, context=100)
    pairs = 8 * 16 + 8 * 9 / 2 + 4 * 5 / 2
    # Dyadic weights: every product and sum is exact.
    assert cost.step(batch) == 1 + 12 / 8 + 2 / 4 + pairs / 1024 + 3 / 16 + 100 / 4096


def test_a_linear_cost_without_chunks_is_one_line() -> None:
    cost = LinearCost(base=1, per_decode=2**-4, per_context_token=2**-12)
    batch = BatchShape((), 3, 100)
    line = cost.line(batch)
    assert line.first == cost.step(batch)
    assert line.slope == 3 / 4096
    assert line.steps == UNBOUNDED
    assert cost.total(batch, 5) == sum(cost.step(BatchShape((), 3, 100 + 3 * i)) for i in range(5))


def test_every_bad_weight_is_named() -> None:
    with pytest.raises(BadInput, match=r"(?s)base: -1.*per_chunk: nan"):
        LinearCost(base=-1, per_chunk=float("nan"))
    with pytest.raises(BadInput, match="all weights of a linear cost are 0"):
        LinearCost()


def test_describe_states_each_figure() -> None:
    assert ConstantCost(0.5).describe()["seconds"] == (0.5, "stated", "the scenario")
    assert LinearCost(base=0.5).describe()["base"].value == 0.5
