"""The commands' own help as Markdown."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator

import click

from capsim.cli.main import cli

_VALUES = {
    "integer range": "N",
    "integer": "N",
    "float range": "X",
    "text": "TEXT",
    "choice": "NAME",
    "directory": "FOLDER",
    "file": "FILE",
    "path": "PATH",
}


def commands() -> dict[str, click.Command]:
    """Every command by its words, those of nested groups too; the groups themselves are left out."""
    return dict(_commands(cli, ""))


def command_line() -> list[str]:
    """A section a command: usage, what it does, examples, options."""
    return [line for name, command in commands().items() for line in _section(name, command)]


def help_text(command: click.Command) -> str:
    """The command's help without the marks that keep click from wrapping."""
    return inspect.cleandoc((command.help or "").replace("\b", ""))


def examples(command: click.Command) -> list[str]:
    """Command lines that the help shows, each on one line."""
    joined = re.sub(r"\\\n\s*", "", help_text(command))
    lines = (line.strip() for line in joined.splitlines())
    return [line for line in lines if line.startswith("capsim ")]


def _commands(group: click.Group, prefix: str) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from _commands(command, f"{prefix}{name} ")
        elif command is not None:
            yield f"{prefix}{name}", command


def _section(name: str, command: click.Command) -> Iterator[str]:
    arguments = [_named(param) for param in command.params if isinstance(param, click.Argument)]
    yield from ("", f"## capsim {name}", "", "    " + " ".join(("capsim", name, "[OPTIONS]", *arguments)), "")
    about, _, shown = re.split(r"(Examples?:\n)", help_text(command))
    yield from about.strip().splitlines()
    yield from ("", "```sh", *textwrap.dedent(shown).strip().splitlines(), "```", "")
    yield from ("| Option | Meaning |", "| --- | --- |")
    for param in command.params:
        if isinstance(param, click.Option):
            yield f"| `{_spelling(param)}` | {_meaning(param)} |"
    yield "| `-h`, `--help` | Show the help and exit. |"
    if command.epilog:
        yield from ("", *_epilog(command.epilog))


def _epilog(text: str) -> list[str]:
    """A heading and its rows of a name and a meaning, as a list."""
    heading, *rows = inspect.cleandoc(text.replace("\b", "")).splitlines()
    pairs = (row.split(maxsplit=1) for row in rows)
    return [heading, "", *(f"- `{name}`: {meaning}" for name, meaning in pairs)]


def _named(argument: click.Argument) -> str:
    return argument.metavar or (argument.name or "").upper()


def _spelling(option: click.Option) -> str:
    spelling = ", ".join(option.opts)
    return spelling if option.is_flag else f"{spelling} {option.metavar or _VALUES[option.type.name]}"


def _meaning(option: click.Option) -> str:
    text = f"{option.help}"
    if isinstance(option.type, click.Choice):
        text += f" One of {', '.join(option.type.choices)}."
    if isinstance(option.show_default, str):
        return f"{text} Default: {option.show_default}."
    if option.required:
        return f"{text} Required."
    return f"{text} Default: {option.default}." if option.show_default else text
