"""The command line in process, and what must hold of it whatever its files hold."""

from __future__ import annotations

import io
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Any

from capsim.cli.main import main

ANSWERED, BAD_INPUT, INFEASIBLE = 0, 2, 3
PATIENCE = 20.0
"""Seconds of work after which a command counts as hung; on a small file they all take well below one. Time in which
the machine does something else is not the command's."""
MEMORY = 4 << 30
"""Bytes of address space that a command may take beyond what the process has: a small file needs no more."""


@dataclass(frozen=True)
class Printed:
    """What a command left: exit code, stdout, stderr."""

    code: int
    out: str
    err: str


def run(arguments: list[str]) -> Printed:
    """Run the command line, within `PATIENCE` and `MEMORY`; what goes beyond ends as a defect, exit code 4."""
    out, err = io.StringIO(), io.StringIO()
    code: Any = None
    with redirect_stdout(out), redirect_stderr(err), _limited():
        try:
            main(arguments)
        except SystemExit as exit_:
            code = exit_.code
    return Printed(code or 0, out.getvalue(), err.getvalue())


def check_answered_or_refused(arguments: list[str], names: list[str]) -> Printed:
    """The command answered, or refused its input in words that name one of these files; returns what it printed."""
    printed = run(arguments)
    assert "Traceback" not in printed.err, printed.err
    assert printed.code in (ANSWERED, BAD_INPUT, INFEASIBLE), printed
    if printed.code == BAD_INPUT:
        assert any(name in printed.err for name in names), printed.err
        assert printed.out == ""
    if printed.code != ANSWERED:
        assert printed.err.strip()
    (printed.out + printed.err).encode("utf-8")
    return printed


@contextmanager
def _limited() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    taken = _address_space()
    handler = signal.signal(signal.SIGPROF, _hung)
    signal.setitimer(signal.ITIMER_PROF, PATIENCE)
    if taken:
        resource.setrlimit(resource.RLIMIT_AS, (taken + MEMORY, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, handler)


def _address_space() -> int:
    """Bytes that this process has, 0 where the system does not say."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[0]) * resource.getpagesize()
    except OSError:
        return 0


def _hung(*_: Any) -> None:
    raise TimeoutError(f"no answer within {PATIENCE:g} s")
