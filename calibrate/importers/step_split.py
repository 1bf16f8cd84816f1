"""Measured steps for a profile's tables, and steps that are kept out of them to test them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from calibrate.step_fit import MeasuredStep
from calibrate.step_tables import context_of

HELD_OUT_OF = 5
"""One shape in so many is kept out of the tables, to be predicted."""
FEWEST_TO_HOLD_OUT = 20
"""Steps below which all are needed for the tables."""


def split(steps: Sequence[MeasuredStep]) -> tuple[list[MeasuredStep], list[MeasuredStep]]:
    """Steps for the tables, and one shape in `HELD_OUT_OF` to test them, picked by a hash of the shape.

    Neither the order of the file nor the seconds have a say. The smallest and largest chunks, and the shortest and
    longest context of each number of decodes, stay in: the tests ask for what lies between, as a simulation does.
    """
    if len(steps) < FEWEST_TO_HOLD_OUT:
        return list(steps), []
    edges = _ends([step for step in steps if not step.batch.decodes])
    for decodes in {step.batch.decodes for step in steps if step.batch.decodes}:
        edges |= _ends([step for step in steps if step.batch.decodes == decodes])
    kept: list[MeasuredStep] = []
    out: list[MeasuredStep] = []
    for step in steps:
        digest = hashlib.sha256(repr(step.shape).encode()).digest()
        (out if digest[0] % HELD_OUT_OF == 0 and step.shape not in edges else kept).append(step)
    return kept, out


def _ends(steps: Sequence[MeasuredStep]) -> set[object]:
    """Shapes of the steps that are the first or last by tokens or by reach."""
    by_size = sorted(steps, key=lambda step: (step.tokens, _reach(step)))
    by_reach = sorted(steps, key=lambda step: (_reach(step), step.tokens))
    return {step.shape for order in (by_size, by_reach) for step in (order[0], order[-1])}


def _reach(step: MeasuredStep) -> int:
    """Context of a step's decodes, or the most tokens before a chunk."""
    if step.batch.decodes:
        return context_of(step)
    return max(past for _, past in step.batch.chunks)
