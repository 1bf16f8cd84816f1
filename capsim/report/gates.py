"""Gates in print: what was observed, against what, and how much of the demand was inside."""

from __future__ import annotations

from capsim.report import Json
from capsim.report.number import INFINITE, NOTHING, duration, number, share
from capsim.report.table import table

VERDICTS = {"pass": "passes", "fail": "fails", "undecided": "is undecided"}
"""A verdict as the end of a sentence."""


def limit(gate: Json) -> str:
    """What a gate asks for, e.g. ``at most 500ms``."""
    if gate["required"] is None:
        return f"at least {number(gate['limit'])}"
    return f"at most {share(gate['limit']) if _of_errors(gate) else duration(gate['limit'])}"


def observed(gate: Json) -> str:
    """The figure that a gate judges; ``inf`` where too many requests failed for the percentile to exist."""
    if gate["required"] is None:
        return number(gate["observed"])
    if _of_errors(gate):
        return share(gate["observed"])
    return duration(gate["observed"], NOTHING if _inside(gate) == 1 else INFINITE)


def judged_gates(gates: list[Json]) -> list[str]:
    """Table of gates judged over replications."""
    header = ("gate", "observed", "limit", "must be\ninside", "inside", "interval", "runs", "verdict")
    return table(header, "lrrrrrrl", [_judged(gate) for gate in gates])


def measured_gates(gates: list[Json]) -> list[str]:
    """Table of the gates of one run."""
    header = ("gate", "observed", "limit", "must be\ninside", "inside", "verdict")
    rows = [
        (
            gate["name"],
            observed(gate),
            limit(gate),
            share(gate["required"]),
            share(gate["attained"]),
            "pass" if gate["passed"] else "fail",
        )
        for gate in gates
    ]
    return table(header, "lrrrrl", rows)


def _judged(gate: Json) -> tuple[str, ...]:
    attained = gate["attained"]
    figures = (gate["name"], observed(gate), limit(gate), share(gate["required"]))
    if attained is None:
        return (*figures, NOTHING, "as stated", NOTHING, gate["verdict"])
    between = f"{share(attained['low'])} to {share(attained['high'])}"
    return (*figures, share(attained["mean"]), between, str(attained["replications"]), gate["verdict"])


def _of_errors(gate: Json) -> bool:
    return bool(gate["name"] == "error rate")


def _inside(gate: Json) -> float | None:
    attained = gate["attained"]
    inside: float | None = attained["mean"] if isinstance(attained, dict) else attained
    return inside
