"""Each command explains itself, with examples that work."""

from __future__ import annotations

import shlex
from pathlib import Path

import click
import pytest

from capsim.cli.main import cli
from capsim.scenario import load
from tests.docs.command_line import examples, help_text
from tests.docs.page import ROOT

commands = pytest.mark.parametrize("name", list(cli.commands))
EXAMPLES = [line for command in (cli, *cli.commands.values()) for line in examples(command)]


@commands
def test_a_command_says_what_it_does_and_shows_an_example(name: str) -> None:
    command = cli.commands[name]
    assert help_text(command).splitlines()[0].endswith((".", "?"))
    assert examples(command)
    assert all(line.split()[1] == name for line in examples(command))


@commands
def test_every_option_says_what_it_is_for(name: str) -> None:
    options = [param for param in cli.commands[name].params if isinstance(param, click.Option)]
    assert options
    assert all(option.help for option in options)


@pytest.mark.parametrize("line", EXAMPLES)
def test_an_example_parses_and_its_scenario_is_sound(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    name, *arguments = shlex.split(line)[1:]
    context = cli.commands[name].make_context(name, arguments)
    changes: tuple[str, ...] = context.params["overrides"]
    scenario: Path = context.params["scenario_file"]
    assert load(scenario, changes).name
