"""What measured steps must hold to become a profile."""

from __future__ import annotations

import math
from collections.abc import Sequence

from calibrate.importers.step_source import UNITS, StepSource
from calibrate.regime import shape_text
from calibrate.step_fit import MeasuredStep
from capsim.cost import RooflineCost
from capsim.errors import BadInput, Fault

FARTHEST = 30.0
"""Times the roofline's seconds, or a fraction of them, at which a wrong unit is the likelier reason than a slow or
fast engine: units are a thousand apart, and 30 is about the middle of that."""


def check_unit(source: StepSource, steps: Sequence[MeasuredStep], roofline: RooflineCost) -> None:
    """Refuse steps that take a thousand times what they should, or a thousandth.

    Raises:
        BadInput: half of them are too far from the roofline.
    """
    ratios = {step.seconds / roofline.step(step.batch): step for step in steps}
    ratio = sorted(ratios)[len(ratios) // 2]
    if 1 / FARTHEST <= ratio <= FARTHEST:
        return
    step = ratios[ratio]
    unit = UNITS.index(source.unit) - round(math.log(ratio, 1000))
    guess = f"is the file in {UNITS[unit]}?" if 0 <= unit < len(UNITS) else "is it the right GPU and model?"
    what = (
        f"half of the steps take {ratio:.3g} times what a roofline says or {'less' if ratio < 1 else 'more'}, e.g. "
        f"{shape_text(step.batch)}: {step.seconds:.3g} s for {roofline.step(step.batch):.3g} s; {guess}"
    )
    raise BadInput(Fault(source.file, what, expected=source.unit))


def check_enough(source: StepSource, steps: Sequence[MeasuredStep]) -> None:
    """Refuse steps that leave a table without a base, saying what to measure.

    Raises:
        BadInput: every table that lacks some.
    """
    contexts: dict[int, set[int]] = {}
    lengths = set()
    for step in steps:
        if not step.batch.chunks:
            contexts.setdefault(step.batch.decodes, set()).add(step.batch.context)
        elif not step.batch.decodes:
            lengths.add(step.tokens)
    told = sum(len(found) > 1 for found in contexts.values())
    faults = []
    if told < 2:
        what = f"{told} of {len(contexts)} numbers of decodes were measured at two contexts or more"
        faults.append(Fault(source.file, what, "decode", "at least 2, to tell attention from the rest"))
    if len(lengths) < 2:
        what = f"steps of chunks alone were measured at {len(lengths)} numbers of tokens"
        faults.append(Fault(source.file, what, "prefill", "at least 2"))
    if faults:
        raise BadInput(*faults)
