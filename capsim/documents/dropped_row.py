"""Rows of a file that were not used, and how they are told of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from capsim.errors import BadInput, Fault

ROWS_SHOWN = 5
"""Rows that one message spells out, so that a ruined file does not print itself."""


@dataclass(frozen=True)
class DroppedRow:
    """A row that was not used: its line in the file, or its place in an array, counted from 1, and why."""

    number: int
    reason: str


def dropped_notes(dropped: Sequence[DroppedRow], total: str, place: str) -> list[str]:
    """One sentence a reason: how many rows were dropped for it, and where the first of them stand.

    Args:
        dropped: the rows.
        total: how many rows of what there were, such as "12 requests".
        place: what a row's number counts, such as "line".
    """
    numbers_of: dict[str, list[int]] = {}
    for row in dropped:
        numbers_of.setdefault(row.reason, []).append(row.number)
    return [
        f"dropped {len(numbers)} of {total}: {reason} ({_places(numbers, place)})"
        for reason, numbers in numbers_of.items()
    ]


def no_usable_row(source: str, dropped: Sequence[DroppedRow]) -> BadInput:
    """The refusal of a file whose rows were all dropped, with the reasons of the first; their numbers are lines."""
    what = f"no usable row among {len(dropped)}"
    faults = [Fault(source, row.reason, line=row.number, column=1) for row in dropped[:ROWS_SHOWN]]
    return BadInput(Fault(source, what, expected="at least one request"), *faults)


def _places(numbers: list[int], place: str) -> str:
    shown = ", ".join(map(str, numbers[:ROWS_SHOWN]))
    return f"{place}{'s' if len(numbers) > 1 else ''} {shown}{', ...' if len(numbers) > ROWS_SHOWN else ''}"
