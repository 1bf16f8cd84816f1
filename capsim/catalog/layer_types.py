"""Which layers of a model are of which kind, as catalogs and configs say it."""

from __future__ import annotations

from collections.abc import Container

from capsim.catalog.config_keys import ConfigKeys

STATE, ATTENTION, MLP = "M", "*", "-"
"""Symbols of a layer pattern, as Nemotron-H writes it: a layer is a state, attention or an MLP, and nothing else."""

SYMBOLS = (STATE, ATTENTION, MLP)


def every(step: int, layers: int) -> tuple[int, ...]:
    """Indices of each so many'th layer; none with a step of 0."""
    return tuple(range(step - 1, layers, step)) if step else ()


def listed(keys: ConfigKeys, layers: int, other: str) -> tuple[int, ...]:
    """Indices of ``full_attention`` in ``layer_types``; empty without the list."""
    kinds = keys.words("layer_types", ("full_attention", other), layers)
    return tuple(index for index, kind in enumerate(kinds) if kind == "full_attention")


def of_symbol(pattern: str, symbol: str) -> tuple[int, ...]:
    """Indices of the layers that a pattern gives this symbol."""
    return tuple(index for index, each in enumerate(pattern) if each == symbol)


def pattern_of(layers: int, full: Container[int], alone: Container[int]) -> str:
    """The pattern of a model whose other layers have states.

    Args:
        layers: of the model.
        full: indices of those with attention.
        alone: indices of those that are an MLP.
    """
    return "".join(ATTENTION if at in full else MLP if at in alone else STATE for at in range(layers))
