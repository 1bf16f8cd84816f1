"""Options that commands share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

LIMITS = {
    "max_num_batched_tokens": "Tokens in a step, at most.",
    "max_num_seqs": "Sequences in a step, at most.",
    "max_model_len": "Longest sequence, tokens.",
}
"""An engine's limits, by its own names, and what they say of themselves."""

json_option = click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")


def limit_options(
    default: Mapping[str, int] | None = None, least: Mapping[str, int] | None = None
) -> Callable[[Command], Command]:
    """An option for each of `LIMITS`.

    Args:
        default: by name; a limit without one may be left out, and is then None.
        least: by name; 1 where there is none.
    """
    default, least = default or {}, least or {}

    def decorate(command: Command) -> Command:
        for name, meaning in reversed(LIMITS.items()):
            option = click.option(
                f"--{name.replace('_', '-')}",
                type=click.IntRange(min=least.get(name, 1)),
                default=default.get(name),
                show_default=name in default,
                help=meaning,
            )
            command = option(command)
        return command

    return decorate
