"""An engine's own part of a step: what its logged steps take beyond the tables of its kernels."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from calibrate.draft import Draft
from calibrate.engine_steps import EngineSteps
from calibrate.microbenchmark.fit import Stated
from calibrate.probe import is_outside
from capsim.cost import ProfileCost
from capsim.errors import BadInput, Fault

FEWEST = 10
"""Steps inside the tables' ranges; a median of fewer says little."""


@dataclass(frozen=True)
class Host:
    """Seconds of a step beyond the tables.

    Attributes:
        seconds: median, not below 0.
        low, high: ends of the middle half.
        steps: how many were looked at.
    """

    seconds: float
    low: float
    high: float
    steps: int

    def stated(self, stated: Stated) -> Stated:
        """The same statement with this host."""
        note = (
            f"The CPU's part of a step is the median of {self.steps} steps of an engine less the tables; the middle "
            f"half spans {1e3 * self.low:.3g} to {1e3 * self.high:.3g} ms."
        )
        return replace(stated, host=self.seconds, host_tag="fitted", host_note=note)


def host_of(draft: Draft, steps: EngineSteps) -> Host:
    """The host of an engine's steps.

    Args:
        draft: tables of the kernels.
        steps: of the same model on the same machine.

    Raises:
        BadInput: too few steps lie inside what the tables were measured for.
    """
    stated = draft.provenance
    cost = ProfileCost(
        replace(draft, host=0.0).profile(),
        stated.model,
        stated.dtype,
        stated.kv_dtype,
        stated.tensor_parallel_size,
    )
    inside = [step for step in steps.steps if not is_outside(cost, step.batch)]
    if len(inside) < FEWEST:
        what = f"{len(inside)} of {len(steps.steps)} steps lie inside what the tables were measured for"
        raise BadInput(Fault(steps.source, what, "", f"{FEWEST} at least"))
    beyond = [step.seconds - cost.step(step.batch) for step in inside]
    low, middle, high = (float(value) for value in np.quantile(beyond, (0.25, 0.5, 0.75)))
    return Host(max(0.0, middle), low, high, len(inside))
