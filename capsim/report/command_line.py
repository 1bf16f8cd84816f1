"""What was understood of a pasted command line."""

from __future__ import annotations

from collections.abc import Iterator

from capsim.report import Json
from capsim.report.table import paragraph
from capsim.scenario.command_line import CommandLine


def command_record(command: CommandLine) -> Json:
    """A command line as JSON: keys that it settles, flags without effect, and flags that are left out."""
    return {
        "model": command.model or None,
        "settled": dict(command.settled),
        "ignored": list(command.ignored),
        "not_modelled": [{"flag": flag, "reason": reason} for flag, reason in command.not_modelled],
    }


def understood(command: CommandLine) -> Iterator[str]:
    """A command line in lines: what it settles, and what has no effect on capacity."""
    yield "command line"
    settled = ", ".join(f"{key}: {_shown(value)}" for key, value in command.settled.items())
    yield from paragraph(f"settles {settled or 'no key'}", "-")
    if command.ignored:
        yield from paragraph(f"without effect on capacity: {', '.join(command.ignored)}", "-")
    if command.not_modelled:
        yield from paragraph(f"not modelled: {', '.join(flag for flag, _ in command.not_modelled)}", "-")


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
