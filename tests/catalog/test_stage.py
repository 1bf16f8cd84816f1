from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capsim.catalog import load_model
from capsim.catalog.model import Experts
from capsim.catalog.stage import Stage, pipeline_stages
from capsim.errors import BadInput
from tests.cost.hardware import LLAMA_8B


def split(layers: int, size: int) -> list[int]:
    return [stage.layers for stage in pipeline_stages(replace(LLAMA_8B, layers=layers), size)]


@pytest.mark.parametrize(
    ("layers", "size", "expected"),
    [
        (32, 1, [32]),
        (32, 4, [8, 8, 8, 8]),
        # What remains spares the last stage first, then the first one.
        (5, 3, [2, 2, 1]),
        (4, 3, [1, 2, 1]),
        (61, 4, [15, 15, 16, 15]),
        (61, 2, [31, 30]),
    ],
)
def test_layers_are_split_as_the_engine_does(layers: int, size: int, expected: list[int]) -> None:
    assert split(layers, size) == expected


@given(layers=st.integers(1, 200), data=st.data())
def test_stages_hold_every_layer_once_and_differ_by_one(layers: int, data: st.DataObject) -> None:
    sizes = split(layers, data.draw(st.integers(1, layers)))
    assert sum(sizes) == layers
    assert max(sizes) - min(sizes) <= 1
    assert sizes[-1] == min(sizes)


def test_the_dense_layers_come_first_and_the_ends_hold_the_embeddings() -> None:
    model = replace(LLAMA_8B, layers=6, experts=Experts(8, 2, 64, dense_layers=3))
    assert pipeline_stages(model, 3) == (
        Stage(2, 0, True, False),
        Stage(1, 1, False, False, 2),
        Stage(0, 2, False, True, 4),
    )


def test_layers_of_a_pattern_are_counted_where_they_stand() -> None:
    # M-M-M-M*-M-M-M-M-M*-M-M-M- and M-M*-M-M-M-M-M*-M-M-M-M-M-, 26 layers each.
    first, last = pipeline_stages(load_model("nemotron-h-8b"), 2)
    assert first == Stage(12, 0, True, False, other_layers=14)
    assert last == Stage(12, 0, False, True, 26, other_layers=14)
    assert (first.layers, first.holds((6, 17, 30)), last.holds((6, 17, 30))) == (26, 2, 1)


@pytest.mark.parametrize("size", [0, 33])
def test_more_stages_than_layers_are_refused(size: int) -> None:
    with pytest.raises(BadInput, match=f"pipeline_parallel_size {size}, expected 1 to 32"):
        pipeline_stages(LLAMA_8B, size)
