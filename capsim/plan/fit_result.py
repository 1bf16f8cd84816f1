"""What `capsim fit` found, as plain data: bytes and tokens throughout."""

from __future__ import annotations

from typing import Any

from capsim.memory.startup_log import StartupLog
from capsim.plan.demand_record import unservable_share
from capsim.plan.deployment import Fitted
from capsim.plan.feasibility import Feasibility
from capsim.plan.heading import heading, identity
from capsim.plan.memory_record import memory_record
from capsim.plan.startup import log_record

Json = dict[str, Any]


def fit_result(deployment: Fitted, log: StartupLog | None = None) -> Json:
    """Memory only: the table, what the pool holds and why not more, and the engine's own log if there is one."""
    feasibility = Feasibility(deployment)
    return {
        **heading("capsim.fit"),
        **identity(deployment),
        "unservable_share": unservable_share(deployment),
        "memory": memory_record(deployment),
        "capacity": feasibility.capacity(),
        "changes": feasibility.changes(),
        "factors": feasibility.factors(),
        "log": None if log is None else log_record(deployment, log),
    }
