"""Options that ``plan`` and ``run`` share."""

from __future__ import annotations

import click

from calibrate.microbenchmark.rank import Rank
from calibrate.options import Command, limit_options
from calibrate.stated import check_ranks, stated_model
from capsim.errors import BadInput, Fault

DTYPES = {"bf16": "bfloat16", "bfloat16": "bfloat16", "fp8": "fp8"}
"""What the user may write, and what the catalog calls it."""

DEFAULTS = {"max_num_batched_tokens": 8192, "max_num_seqs": 256, "max_model_len": 16384}
LEAST = {"max_num_batched_tokens": 64, "max_num_seqs": 4, "max_model_len": 256}
"""How far the tables reach, and no less."""


def plan_options(command: Command) -> Command:
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
            limit_options(DEFAULTS, LEAST),
        )
    ):
        command = option(command)
    return command


def rank_of(model: str, dtype: str, tp: int) -> Rank:
    """The rank that is asked for.

    Raises:
        BadInput: the model is not known or not covered, ranks that cannot share it, or experts in FP8.
    """
    shapes = stated_model(model)
    check_ranks(shapes, tp)
    rank = Rank(shapes, tp, DTYPES[dtype])
    if rank.dtype == "fp8" and rank.model.experts is not None:
        what = f"{rank.model.name} has experts, whose grouped products are measured in bf16 only"
        raise BadInput(Fault("--dtype", what, "fp8", "bf16"))
    return rank
