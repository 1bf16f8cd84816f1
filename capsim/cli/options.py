"""Arguments and options that commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from capsim.cli.hardware import cores
from capsim.scenario import Scenario, load

Command = Callable[..., Any]


json_option = click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
seed_option = click.option("--seed", type=click.IntRange(min=0), help="Random seed; replaces the scenario's.")
override_option = click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="PATH=VALUE",
    help="Change a key of the scenario, e.g. --set engine.max_num_seqs=128. May be repeated.",
)


def scenario_options(command: Command) -> Command:
    """What every command takes: the scenario file, changes to it, and where and how the answer goes."""
    for decorate in (
        click.option(
            "--jobs",
            type=click.IntRange(min=1),
            default=cores,
            show_default="all cores",
            help="Processes for simulations; the answer does not depend on it.",
        ),
        click.option(
            "--out",
            type=click.Path(path_type=Path, file_okay=False),
            help="Folder for the result; made if need be.",
        ),
        json_option,
        seed_option,
        override_option,
        click.argument("scenario_file", metavar="SCENARIO", type=click.Path(path_type=Path)),
    ):
        command = decorate(command)
    return command


def read_scenario(path: Path, overrides: tuple[str, ...], seed: int | None) -> Scenario:
    """The scenario with the command line's changes.

    Raises:
        BadInput: every fault of the file and of the changes.
    """
    changes = overrides if seed is None else (*overrides, f"seed={seed}")
    return load(path, changes)


def run_folder_options(command: Command) -> Command:
    """What a command takes that reads a run folder: the folder, and how the answer goes."""
    folder = click.argument("folder", metavar="RUN", type=click.Path(path_type=Path))
    return folder(json_option(command))
