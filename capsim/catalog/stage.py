"""How pipeline parallelism cuts a model into stages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from capsim.catalog.model import Model
from capsim.errors import BadInput


class Stage(NamedTuple):
    """What one stage of a pipeline holds.

    Attributes:
        dense_layers: layers with one MLP.
        expert_layers: layers with experts.
        embeds: it is the first stage and holds the token embedding.
        projects: it is the last stage and holds the final norm and the output projection, and samples.
        first: index of its first layer in the model.
        other_layers: layers with neither, which are attention or a state alone.
    """

    dense_layers: int
    expert_layers: int
    embeds: bool
    projects: bool
    first: int = 0
    other_layers: int = 0

    @property
    def layers(self) -> int:
        """Layers of any kind."""
        return self.dense_layers + self.expert_layers + self.other_layers

    def holds(self, layers: Iterable[int]) -> int:
        """How many of these layers, given by their index in the model, are among its own."""
        return sum(self.first <= layer < self.first + self.layers for layer in layers)


def pipeline_stages(model: Model, pipeline_parallel_size: int = 1) -> tuple[Stage, ...]:
    """Stages of a model in order, split as vLLM does (``get_pp_indices`` of vllm/distributed/utils.py).

    Every stage has the same number of layers; what remains goes one by one to the stages before the last, backwards:
    the last stage has the output projection already.

    Raises:
        BadInput: fewer layers than stages.
    """
    size = pipeline_parallel_size
    if not 1 <= size <= model.layers:
        raise BadInput(
            f"pipeline_parallel_size {size}, expected 1 to {model.layers}, the layers of {model.name}"
        )
    even, remaining = divmod(model.layers, size)
    stages = []
    first = 0
    for index in range(size):
        end = first + even + (size - 1 - remaining <= index < size - 1)
        stages.append(_stage(model, first, end))
        first = end
    return tuple(stages)


def _stage(model: Model, first: int, end: int) -> Stage:
    """The stage with the layers from `first` to before `end`."""
    embeds, projects = first == 0, end == model.layers
    if model.mlp_layers:
        dense = sum(first <= layer < end for layer in model.mlp_layers)
        return Stage(dense, 0, embeds, projects, first, other_layers=end - first - dense)
    dense = max(0, min(end, model.dense_layers) - first)
    return Stage(dense, end - first - dense, embeds, projects, first)
