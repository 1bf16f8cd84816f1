from __future__ import annotations

import sys

import click

from calibrate.microbenchmark.case import Case


class Progress:
    """Says on stderr which case is next: over the same line for people who watch, else every tenth."""

    def __init__(self) -> None:
        self._drawn = sys.stderr.isatty()
        self._tenth = -1

    def __call__(self, case: Case, place: int, cases: int) -> None:
        """Say it."""
        if self._drawn:
            end = "\n" if place == cases - 1 else ""
            click.echo(f"\r\x1b[K{place + 1}/{cases} {case}{end}", err=True, nl=False)
        elif 10 * place // cases != self._tenth:
            self._tenth = 10 * place // cases
            click.echo(f"{place + 1}/{cases} {case}", err=True)
