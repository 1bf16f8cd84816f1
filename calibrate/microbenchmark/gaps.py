"""What a step takes beyond its operators timed one by one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from calibrate.draft import Curve
from calibrate.microbenchmark.row import Row
from calibrate.monotone import monotone
from capsim.cost import ProfileCost


def gaps_of(cost: ProfileCost, chain: Sequence[Row]) -> tuple[Curve | None, list[str]]:
    """Seconds of a layer by tokens, from steps of one chunk without a past, and the note that says so.

    An operator alone finds its instructions and small inputs in the caches; in a step others have run in between, and
    between two kernels lies a gap. Both depend on the operators, not on the batch, so that they are known from steps
    of one kind.

    Args:
        cost: of the operators and attention, through as many layers as the steps.
        chain: the steps.
    """
    seconds: dict[int, float] = {}
    for row in chain:
        batch = row.case.shape
        seconds[batch.tokens] = (row.seconds - cost.step(batch.shape)) / cost.profile.attention.times
    if len(seconds) < 2:
        return None, ["What lies between the operators was not measured: a step is their plain sum."]
    counts = sorted(seconds)
    values, _ = monotone(np.maximum(0.0, [seconds[count] for count in counts]))
    shares = sorted(max(0.0, row.seconds - cost.step(row.case.shape.shape)) / row.seconds for row in chain)
    note = (
        "Operators times layers are "
        f"{100 * shares[len(shares) // 2]:.1f} % short of a whole step in the median and {100 * shares[-1]:.1f} % at "
        "most: launches, and caches that others have used in between. The difference is an operator of its own, gaps, "
        "fitted to steps of one chunk without a past."
    )
    return Curve.of(counts, values), [note]
