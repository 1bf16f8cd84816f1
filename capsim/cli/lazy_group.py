from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module

import click

INDENT = 6
"""Columns that click leaves beside names and summaries."""


class LazyGroup(click.Group):
    """A group whose commands are imported only when somebody asks for one; its help shows what is written here.

    Args:
        name: of the group, as click has it.
        summaries: each command's name, and the first sentence of its own help.
        elsewhere: modules of commands that do not stand in ``capsim.cli`` under their name.
        more: what `click.Group` takes.
    """

    def __init__(
        self,
        name: str | None = None,
        *,
        summaries: Mapping[str, str],
        elsewhere: Mapping[str, str],
        **more: object,
    ) -> None:
        super().__init__(name, **more)  # type: ignore[arg-type]  # click states them one by one
        self.summaries = summaries
        self._elsewhere = elsewhere

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """All names, in order."""
        return sorted(self.summaries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """The command of this name, None if there is none."""
        if cmd_name not in self.summaries:
            return None
        module = import_module(self._elsewhere.get(cmd_name, f"capsim.cli.{cmd_name}"))
        command: click.Command = getattr(module, cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that is asked for; of a name that is none's, the one that was probably meant is told."""
        meant = get_close_matches(args[0], self.summaries, n=1)
        if args[0] not in self.summaries and meant:
            ctx.fail(f"No such command {args[0]!r}. Did you mean {meant[0]!r}?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the summaries, cut to one line each as click cuts those of commands."""
        names = self.list_commands(ctx)
        limit = formatter.width - INDENT - max(map(len, names))
        rows = [
            (name, click.Command(name, help=self.summaries[name]).get_short_help_str(limit)) for name in names
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)
