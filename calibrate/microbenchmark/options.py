"""Options that ``plan`` and ``run`` share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from calibrate.microbenchmark.rank import Rank
from capsim.catalog import load_model
from capsim.errors import BadInput, Fault

DTYPES = {"bf16": "bfloat16", "bfloat16": "bfloat16", "fp8": "fp8"}
"""What the user may write, and what the catalog calls it."""

_Function = TypeVar("_Function", bound=Callable[..., Any])


def limit_options(function: _Function) -> _Function:
    """Model, precision, ranks, minutes, and how far the tables reach."""
    for option in reversed(
        (
            click.option("--model", required=True, help="Model of the catalog, or a YAML file of its sizes."),
            click.option(
                "--dtype",
                default="bf16",
                show_default=True,
                type=click.Choice(list(DTYPES)),
                help="Of the weights.",
            ),
            click.option(
                "--tp",
                default=1,
                show_default=True,
                type=click.IntRange(min=1),
                help="Tensor-parallel ranks.",
            ),
            click.option(
                "--minutes",
                default=10.0,
                show_default=True,
                type=click.FloatRange(min=0, min_open=True),
                metavar="N",
                help="Time to spend; the shapes are as dense as it allows.",
            ),
            click.option(
                "--max-num-batched-tokens",
                default=8192,
                show_default=True,
                type=click.IntRange(min=64),
                help="Tokens of the largest step.",
            ),
            click.option(
                "--max-num-seqs",
                default=256,
                show_default=True,
                type=click.IntRange(min=4),
                help="Sequences of the largest batch.",
            ),
            click.option(
                "--max-model-len",
                default=16384,
                show_default=True,
                type=click.IntRange(min=256),
                help="Longest sequence, tokens.",
            ),
        )
    ):
        function = option(function)
    return function


def rank_of(model: str, dtype: str, tp: int) -> Rank:
    """The rank that is asked for.

    Raises:
        BadInput: the model is not known or not covered, or experts in FP8.
    """
    rank = Rank(load_model(model), tp, DTYPES[dtype])
    if rank.dtype == "fp8" and rank.model.experts is not None:
        what = f"{rank.model.name} has experts, whose grouped products are measured in bf16 only"
        raise BadInput(Fault("--dtype", what, "fp8", "bf16"))
    return rank
