"""What `capsim fit` found, as plain data: bytes and tokens throughout."""

from __future__ import annotations

from typing import Any

from capsim import __version__
from capsim.memory.startup_log import StartupLog
from capsim.plan.deployment import Fitted
from capsim.plan.feasibility import Feasibility
from capsim.plan.result import SCHEMA_VERSION, identity, memory_record, unservable_share
from capsim.plan.startup import log_record

Json = dict[str, Any]


def fit_result(deployment: Fitted, log: StartupLog | None = None) -> Json:
    """Memory only: the table, what the pool holds and why not more, and the engine's own log if there is one."""
    feasibility = Feasibility(deployment)
    return {
        "schema": "capsim.fit",
        "schema_version": SCHEMA_VERSION,
        "capsim_version": __version__,
        **identity(deployment),
        "unservable_share": unservable_share(deployment),
        "memory": memory_record(deployment),
        "capacity": feasibility.capacity(),
        "changes": feasibility.changes(),
        "factors": feasibility.factors(),
        "log": None if log is None else log_record(deployment, log),
    }
