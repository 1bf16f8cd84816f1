from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class CommandLine:
    """What was understood of the command line that a scenario states in `engine.args`.

    Attributes:
        model: that it serves; empty: it names none.
        settled: keys of `engine` that it says, and their values.
        ignored: names of its flags without effect on capacity, as they are written.
        not_modelled: flags that change capacity and are left out, each with what it changes.
        record: those flags as a command line, to be kept with the settings.
        notes: what else somebody should know.
    """

    model: str = ""
    settled: Mapping[str, Any] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()
    not_modelled: tuple[tuple[str, str], ...] = ()
    record: str = ""
    notes: tuple[str, ...] = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a result must say: every flag that is left out, and why that matters."""
        return tuple(f"{flag}: {reason}" for flag, reason in self.not_modelled)
