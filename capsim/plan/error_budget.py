"""How far a simulation may be from what was measured."""

from __future__ import annotations

from collections.abc import Mapping

from capsim.errors import BadInput, Fault
from capsim.units import UnitError, parse_share

LATENCIES = ("ttft", "tpot", "itl", "e2e")
HELD = ("mean", "p50", "p95")
"""Statistics that a budget holds for."""

ErrorBudget = Mapping[str, float]
"""Largest relative error of a metric, of either sign."""


def parse_budget(text: str) -> dict[str, float]:
    """A budget such as ``ttft=10%,tpot=5%``.

    Raises:
        BadInput: every part that is none, or a metric twice.
    """
    budget: dict[str, float] = {}
    faults = []
    for part in text.split(","):
        metric, equals, share = (word.strip() for word in part.partition("="))
        if not equals or metric not in LATENCIES or metric in budget:
            what = (
                f"{metric} is there twice" if metric in budget else f"{part.strip()!r} is no part of a budget"
            )
            expected = f"one of {', '.join(LATENCIES)} with a share, e.g. ttft=10%"
            faults.append(Fault("--budget", what, expected=expected))
            continue
        try:
            budget[metric] = parse_share(share)
        except UnitError as error:
            faults.append(Fault("--budget", error.what, key=metric, expected=error.expected))
    if faults:
        raise BadInput(*faults)
    return budget
