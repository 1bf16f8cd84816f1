"""The commands' own help as Markdown."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

from capsim.cli.main import cli

_VALUES = {"integer range": "N", "integer": "N", "text": "TEXT", "directory": "FOLDER", "path": "PATH"}


def command_line() -> list[str]:
    """A section a command: usage, what it does, examples, options."""
    return [line for name, command in cli.commands.items() for line in _section(name, command)]


def help_text(command: click.Command) -> str:
    """The command's help without the marks that keep click from wrapping."""
    return inspect.cleandoc((command.help or "").replace("\b", ""))


def examples(command: click.Command) -> list[str]:
    """Command lines that the help shows."""
    lines = (line.strip() for line in help_text(command).splitlines())
    return [line for line in lines if line.startswith("capsim ")]


def _section(name: str, command: click.Command) -> Iterator[str]:
    arguments = [param.metavar or "" for param in command.params if isinstance(param, click.Argument)]
    yield from ("", f"## capsim {name}", "", f"    capsim {name} [OPTIONS] {' '.join(arguments)}", "")
    about = help_text(command).split("Example")[0].strip()
    yield from about.splitlines()
    yield from ("", "```sh", *examples(command), "```", "")
    yield from ("| Option | Meaning |", "| --- | --- |")
    for param in command.params:
        if isinstance(param, click.Option):
            yield f"| `{_spelling(param)}` | {_meaning(param)} |"
    yield "| `-h`, `--help` | Show the help and exit. |"


def _spelling(option: click.Option) -> str:
    spelling = ", ".join(option.opts)
    return spelling if option.is_flag else f"{spelling} {option.metavar or _VALUES[option.type.name]}"


def _meaning(option: click.Option) -> str:
    default = f" Default: {option.show_default}." if isinstance(option.show_default, str) else ""
    return f"{option.help}{default}"
