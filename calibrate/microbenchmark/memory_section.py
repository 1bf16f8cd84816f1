"""The `memory` of a profile, of what ``capsim calibrate run`` measured of a GPU's memory."""

from __future__ import annotations

from typing import Any

from calibrate.microbenchmark.case import MEMORY
from calibrate.microbenchmark.plan import Plan
from calibrate.microbenchmark.raw_file import Raw
from capsim.catalog import Model

_NAMES = {"total": "total", "weights": "weights", "outside torch": "non_torch", "graphs": "graphs"}
_BY_LAYER = ("weights", "graphs")


def memory_section(raw: Raw, plan: Plan, model: Model) -> dict[str, Any]:
    """Members of the section; empty on a CPU, which has no memory of its own.

    Weights and graphs grow with the layers: they are left out where the GPU held fewer than the model has.
    """
    if raw.head.machine.device != "cuda":
        return {}
    origin = {"tag": "measured", "source": "run", "version": raw.head.machine.torch}
    whole = plan.limits.layers == model.layers
    rows = [row for row in raw.rows if row.case.kind == MEMORY and not row.failed]
    members: dict[str, Any] = {
        _NAMES[row.case.name]: {**origin, "bytes": int(row.figure("bytes"))}
        for row in rows
        if row.case.name in _NAMES and (whole or row.case.name not in _BY_LAYER)
    }
    peaks = {row.case.count: int(row.figure("bytes")) for row in rows if row.case.name == "activations"}
    if peaks:
        tokens = sorted(peaks)
        members["activations"] = {
            **origin,
            "tokens": tokens,
            "sequences": [min(each, plan.limits.max_num_seqs) for each in tokens],
            "bytes": [peaks[each] for each in tokens],
        }
    return members
