"""Each command explains itself, with examples that work."""

from __future__ import annotations

import shlex
from pathlib import Path

import click
import pytest

from capsim.cli.main import cli
from capsim.scenario import load
from tests.docs.command_line import commands, examples, help_text
from tests.docs.page import ROOT

COMMANDS = commands()
EXAMPLES = [line for command in (cli, *COMMANDS.values()) for line in examples(command)]

each_command = pytest.mark.parametrize("name", COMMANDS)


def named(line: str) -> str:
    """The command of an example."""
    return next(name for name in COMMANDS if line.startswith(f"capsim {name} "))


def test_no_command_is_left_out() -> None:
    context = click.Context(cli)
    assert {name.split()[0] for name in COMMANDS} == set(cli.list_commands(context))
    assert {"calibrate import", "calibrate show", "calibrate check"} <= set(COMMANDS)


@each_command
def test_a_command_says_what_it_does_and_shows_an_example(name: str) -> None:
    command = COMMANDS[name]
    assert help_text(command).splitlines()[0].endswith((".", "?"))
    assert examples(command)
    assert all(named(line) == name for line in examples(command))


@each_command
def test_every_option_says_what_it_is_for(name: str) -> None:
    options = [param for param in COMMANDS[name].params if isinstance(param, click.Option)]
    assert options
    assert all(option.help for option in options)


@pytest.mark.parametrize("line", EXAMPLES)
def test_an_example_parses_and_its_files_are_sound(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Profiles are written by the reader's own command before, so that their names are anybody's."""
    monkeypatch.chdir(ROOT)
    name = named(line)
    context = COMMANDS[name].make_context(name, shlex.split(line.removeprefix(f"capsim {name}")))
    scenario: Path | None = context.params.get("scenario_file")
    if scenario is not None:
        assert load(scenario, context.params["overrides"]).name
    source: Path | None = context.params.get("path")
    assert source is None or source.exists()
