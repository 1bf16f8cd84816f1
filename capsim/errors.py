"""Every error that capsim raises on purpose.

::

    CapsimError                      exit code
      BadInput                       2   the user's file, flag or data is wrong; `faults` lists each place
      Infeasible                     3   the question is well put and has no feasible answer
      InvariantBroken                4   capsim contradicts itself: our fault

A fault of an input file knows where it stands and what was expected instead.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """One mistake in an input: where, at which key, what is wrong and what was expected.

    ``line`` and ``column`` count from 1; they are None where the fault belongs to a whole file or to a flag.
    """

    source: str
    what: str
    key: str = ""
    expected: str = ""
    suggestion: str = ""
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        place = self.source if self.line is None else f"{self.source}:{self.line}:{self.column}"
        text = ": ".join(part for part in (place, self.key, self.what) if part)
        if self.expected:
            text += f", expected {self.expected}"
        if self.suggestion:
            text += f", did you mean {self.suggestion!r}?"
        return text


class CapsimError(Exception):
    """Base of all errors that capsim raises on purpose."""

    exit_code = 4


class BadInput(CapsimError):
    """The input is wrong; every fault found is listed.

    Args:
        faults: at least one fault, or one sentence for an input that has no place in a file.
    """

    exit_code = 2

    def __init__(self, *faults: Fault | str) -> None:
        self.faults = faults
        super().__init__("\n".join(str(fault) for fault in faults))


class Infeasible(CapsimError):
    """No feasible answer exists: which limit, by how much, and what would make it fit.

    Args:
        limit: the limit that is exceeded and by how much, one sentence.
        remedies: what would make it fit, best first.
    """

    exit_code = 3

    def __init__(self, limit: str, remedies: tuple[str, ...] = ()) -> None:
        self.limit = limit
        self.remedies = remedies
        super().__init__("\n".join([limit, *(f"  would help: {remedy}" for remedy in remedies)]))


class InvariantBroken(CapsimError):
    """A conservation law does not hold in a finished simulation: a defect of capsim, never of the input."""

    exit_code = 4
