"""Why a plan's number is what it is, as plain data, from its result alone."""

from __future__ import annotations

import math

from capsim.report import Json
from capsim.report.changes import changes, tries
from capsim.report.constraint import constraint_at

OVERLOAD = "overload"


def plan_explanation(result: Json) -> Json:
    """Which load, which gate and which constraint make the number, by what margin, and what would change it.

    Args:
        result: as `capsim.plan.plan_result.plan_result` gives it.
    """
    gates = gate_ends(result)
    constraint = binding_constraint(result)
    return {
        **heading(result),
        "answer": {
            key: result["answer"][key] for key in ("replicas", "gpus", "estimate", "estimate_formula")
        },
        "loads": [load(trial, result) for trial in result["answer"]["chosen"]["trials"]],
        "one_less": one_less(result["answer"]["one_less"]),
        **({"served": served(result)} if "served" in result else {}),
        "gates": gates,
        "constraint": constraint,
        "changes": list(changes(result, gates)),
        "try": tries(
            constraint["name"], gates[0]["name"] if gates else "", result["configuration"]["engine"]
        ),
    }


def heading(result: Json) -> Json:
    """What is explained."""
    return {
        "schema": "capsim.explanation",
        "schema_version": 1,
        "capsim_version": result["capsim_version"],
        "of": result["schema"],
        "scenario": result["scenario"],
        "fingerprint": result.get("fingerprint"),
    }


def infeasible_explanation(result: Json) -> Json:
    """A question without an answer: the limit and what would help are the explanation."""
    return {**heading(result), "limit": result["limit"], "remedies": result["remedies"]}


def load(trial: Json, result: Json) -> Json:
    """What a load asks of each replica that is left, against what one replica passes alone."""
    point, alone = trial["point"], result["operating_point"]["rate"]
    return {
        "name": trial["name"],
        "load": trial["load"],
        "verdict": trial["verdict"],
        "rate_per_replica": point["rate_per_replica"],
        "share_of_operating_point": point["rate_per_replica"] / alone,
        "tightest": tightest(point["gates"]),
    }


def tightest(gates: list[Json]) -> Json | None:
    """The gate that uses most of the misses it allows; None of stated figures of quality, which allow none."""
    judged = [gate_margin(gate) for gate in gates if gate["attained"] is not None]
    return max(judged, key=lambda gate: _or(gate["misses_used"], math.inf), default=None)


def gate_margin(gate: Json) -> Json:
    """A gate with how much of its limit is used, and how much of the misses that it allows.

    The misses are those at the lower end of the interval: more than 1 does not pass. Null where a gate allows none, as
    p100, and has some.
    """
    kept = {key: gate[key] for key in ("name", "limit", "required", "observed", "attained", "verdict")}
    observed, attained = gate["observed"], gate["attained"]
    judged = attained is not None
    return {
        **kept,
        "used": observed / gate["limit"] if judged and observed is not None and gate["limit"] else None,
        "misses_used": misses_used(attained["low"], gate["required"]) if judged else None,
    }


def misses_used(inside: float, required: float) -> float | None:
    """Share of the allowed misses that are made; None where none is allowed and one is made."""
    missed, allowed = 1 - inside, 1 - required
    if allowed > 0:
        return missed / allowed
    return 0.0 if missed <= 0 else None


def _or(value: float | None, otherwise: float) -> float:
    return otherwise if value is None else value


def one_less(fleet: Json | None) -> Json | None:
    """The verdict on the fleet of one less, and what each load of it says; None where one replica is enough."""
    if fleet is None:
        return None
    kept = ("name", "load", "verdict", "reason")
    trials = [{key: trial[key] for key in kept} for trial in fleet["trials"]]
    return {"replicas": fleet["replicas"], "verdict": fleet["verdict"], "trials": trials}


def served(result: Json) -> Json:
    """Between which demands the largest lies, and of each load at the upper one what it asks and what is full there."""
    asked = result["served"]
    return {
        **{key: asked[key] for key in ("replicas", "unit", "bracket")},
        "verdict": asked["above"]["verdict"],
        "above": [
            {
                **load(trial, result),
                "reason": trial["reason"],
                "constraint": constraint_at(trial["point"], result["memory"]),
            }
            for trial in asked["above"]["trials"]
        ],
    }


def gate_ends(result: Json) -> list[Json]:
    """Each gate at the operating point, with the rates of one replica between which it ends; the first one binds.

    A gate that holds as far as the replica is not overloaded ends there: beyond, its figures stand for nothing.
    """
    steady = [point for point in result["sweep"] if not point["overloaded"]]
    overloaded = next((point["rate"] for point in result["sweep"] if point["overloaded"]), None)
    ends = []
    for gate in result["operating_point"]["gates"]:
        passed = [point for point in steady if _passes(point, gate["name"])]
        lost = next((point["rate"] for point in steady if not _passes(point, gate["name"])), None)
        below = [point["rate"] for point in passed if lost is None or point["rate"] < lost]
        ends.append(
            {
                **gate_margin(gate),
                "passes_up_to": max(below, default=None),
                "ends_at": overloaded if lost is None else lost,
                "ended_by": OVERLOAD if lost is None else gate["name"],
            }
        )
    return sorted(ends, key=_order)


def _order(gate: Json) -> tuple[float, bool, float]:
    """Sooner ends first; of those that end together, gates before overload, and the one with most misses first."""
    return (
        _or(gate["ends_at"], math.inf),
        gate["ended_by"] == OVERLOAD,
        -_or(gate["misses_used"], 0.0),
    )


def _passes(point: Json, name: str) -> bool:
    return any(gate["name"] == name and gate["verdict"] == "pass" for gate in point["gates"])


def binding_constraint(result: Json) -> Json:
    """What is full, or else slow, at the lowest rate at which one replica no longer passes."""
    limit = result["operating_point"]["bracket"][1]
    point = next(tested for tested in result["sweep"] if tested["rate"] == limit)
    return {
        **constraint_at(point, result["memory"]),
        "rate": limit,
        "prefix_hit_rate": point["prefix_hit_rate"],
        "share_of_saturated": limit / result["saturated_rate"]["mean"],
        "bound": result["bound"]["limit"],
    }
