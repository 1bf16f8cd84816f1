from __future__ import annotations

import re
import shlex

import click
import pytest

from capsim.cli.main import cli
from tests.cli.conftest import Capsim

CONTEXT = click.Context(cli)
COMMANDS = sorted(set(cli.list_commands(CONTEXT)) - {"calibrate"})  # whose own commands are tested with it
WITHOUT_A_SCENARIO = {"catalog", "doctor", "explain", "init", "report", "schema"}
OF_A_SCENARIO = [name for name in COMMANDS if name not in WITHOUT_A_SCENARIO]


def command_of(name: str) -> click.Command:
    command = cli.get_command(CONTEXT, name)
    assert command is not None
    return command


@pytest.mark.parametrize("name", cli.list_commands(CONTEXT))
def test_the_list_of_commands_says_what_their_own_help_begins_with(name: str) -> None:
    assert cli.summaries[name] == command_of(name).get_short_help_str(10_000)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example_that_parses(capsim: Capsim, command: str) -> None:
    printed = capsim(command, "--help")
    assert printed.code == 0
    examples = re.findall(rf"^ *capsim ({command} .*)$", printed.out, flags=re.MULTILINE)
    assert examples
    for example in examples:
        words = shlex.split(example)[1:]
        command_of(command).make_context(command, words)  # raises UsageError if an option is not known


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_is_explained(command: str) -> None:
    for parameter in command_of(command).params:
        if isinstance(parameter, click.Option):
            assert parameter.help


@pytest.mark.parametrize("command", OF_A_SCENARIO)
def test_every_command_takes_the_common_options(command: str) -> None:
    names = {option for parameter in command_of(command).params for option in parameter.opts}
    assert {"--json", "--out", "--set", "--seed", "--jobs"} <= names


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("pln", "No such command 'pln'. Did you mean 'plan'?"),
        ("catlog", "Did you mean 'catalog'?"),
        ("xyzzy", "No such command 'xyzzy'."),
    ],
)
def test_an_unknown_command_is_bad_input(capsim: Capsim, name: str, said: str) -> None:
    printed = capsim(name)
    assert (printed.code, printed.out) == (2, "")
    assert printed.err.endswith(f"{said}\n")
