"""Replicas, router, clients and failures on one clock (SimPy), and the log that a run leaves behind."""

from capsim.fleet.configuration import Failure, FleetConfiguration, Latencies
from capsim.fleet.log import LeapColumns, Outcome, ReplicaState, RequestColumns, RunLog, StateChange

__all__ = [
    "Failure",
    "FleetConfiguration",
    "Latencies",
    "LeapColumns",
    "Outcome",
    "ReplicaState",
    "RequestColumns",
    "RunLog",
    "StateChange",
]
