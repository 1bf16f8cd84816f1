"""Replicas, router, clients and failures on one clock (SimPy), and the log that a run leaves behind."""

from capsim.fleet.configuration import Failure, FleetConfiguration, FlowControl, Latencies
from capsim.fleet.log import LeapColumns, Outcome, ReplicaState, RequestColumns, RunLog, StateChange

__all__ = [
    "Failure",
    "FleetConfiguration",
    "FlowControl",
    "Latencies",
    "LeapColumns",
    "Outcome",
    "ReplicaState",
    "RequestColumns",
    "RunLog",
    "StateChange",
]
