from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Told what long work is doing; the command line draws it."""

    def start(self, stage: str, total: int) -> None:
        """A stage of `total` experiments begins."""

    def advance(self) -> None:
        """One experiment of the stage is done."""


class Silence:
    """Draws nothing."""

    def start(self, stage: str, total: int) -> None:
        """Ignore it."""

    def advance(self) -> None:
        """Ignore it."""
