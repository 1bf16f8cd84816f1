from __future__ import annotations

import numpy as np

from capsim.errors import BadInput
from capsim.fleet.log import RunLog


def saturated_rate(log: RunLog) -> float:
    """Requests/s that a fleet completes while requests always wait.

    Taken from a run in which more requests than the fleet can hold arrive at once: completions from the moment when a
    tenth of them has ended (the first batch, which starts in step, is gone) until the last one is admitted (from then
    on the batch runs empty).

    Raises:
        BadInput: too few requests to ever queue.
    """
    finish = np.sort(log.requests.finish[np.isfinite(log.requests.finish)])
    last_admission = float(np.nanmax(log.requests.scheduled, initial=0.0))
    start = float(finish[len(finish) // 10]) if len(finish) else 0.0
    completed = int(np.count_nonzero((finish > start) & (finish <= last_admission)))
    if completed < 100:
        raise BadInput(
            f"{len(finish)} requests do not saturate the fleet: only {completed} end while others wait"
        )
    return completed / (last_admission - start)
