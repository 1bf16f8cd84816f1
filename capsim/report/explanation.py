"""Why a plan's number is what it is, as plain data, from its result alone."""

from __future__ import annotations

import math
from collections.abc import Iterator

from capsim.report import Json

FULL_POOL = 0.95
"""Share of the KV pool from which it is called full: the next sequence of average length no longer fits, where some
twenty run."""
FULL_BATCH = 0.9
"""Share of max_num_seqs, as a mean over busy time, from which the batch is called full: it then often is."""
OVERLOAD = "overload"

TRIES = {
    ("step time", "ttft"): (
        "engine.max_num_batched_tokens",
        "larger steps compute prompts sooner and make the decodes beside them wait longer",
    ),
    ("step time", "tpot"): (
        "engine.max_num_batched_tokens",
        "smaller steps make decodes wait less for prompts beside them, and prompts take more of them",
    ),
    ("step time", ""): (
        "engine.tensor_parallel_size",
        "more GPUs a replica make every step shorter, at their price",
    ),
    ("KV cache", ""): (
        "engine.kv_cache_dtype",
        "fp8 holds twice the tokens; capsim fit ranks what else does",
    ),
    ("max_num_seqs", ""): ("engine.max_num_seqs", "a larger batch serves more at once, each more slowly"),
    ("throughput", ""): ("engine.max_num_batched_tokens", "fuller steps carry more tokens a second"),
}
"""A setting to try for a constraint and the metric of the gate that ends first, and what it does."""


def plan_explanation(result: Json) -> Json:
    """Which load, which gate and which constraint make the number, by what margin, and what would change it.

    Args:
        result: as `capsim.plan.result.plan_result` gives it.
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
    pool, most = result["memory"]["usable_blocks"], result["memory"]["max_num_seqs"]
    pool_share = point["blocks_max"] / pool
    if point["preemptions"] or pool_share >= FULL_POOL:
        name = "KV cache"
    elif point["running"] >= FULL_BATCH * most:
        name = "max_num_seqs"
    else:
        name = "throughput" if point["overloaded"] else "step time"
    return {
        "name": name,
        "rate": limit,
        "pool_share": pool_share,
        "preemptions": point["preemptions"],
        "running": point["running"],
        "max_num_seqs": most,
        "waiting": point["waiting"],
        "prefix_hit_rate": point["prefix_hit_rate"],
        "share_of_saturated": limit / result["saturated_rate"]["mean"],
        "bound": result["bound"]["limit"],
    }


def changes(result: Json, gates: list[Json]) -> Iterator[Json]:
    """What would change the number: the binding gate, the drill or the reserve, the demand, and longer steps."""
    yield from _without_binding(result, gates)
    yield from _without_drill(result)
    yield _more_demand(result)
    slowdowns = result["confidence"]["slowdowns"]
    held = [slow["factor"] for slow in slowdowns if slow["verdict"] == "pass"]
    lost = next((slow for slow in slowdowns if slow["verdict"] != "pass"), None)
    yield {
        "name": "longer steps",
        "shown": True,
        "holds_at": max(held, default=1.0),
        "lost_at": None if lost is None else lost["factor"],
        "verdict": None if lost is None else lost["verdict"],
    }


def _without_binding(result: Json, gates: list[Json]) -> Iterator[Json]:
    """The gate behind the binding ones, and the fleets that the formula gives between its rates."""
    ended = [gate for gate in gates if gate["ends_at"] is not None]
    binding = [gate["name"] for gate in ended if gate["ends_at"] == ended[0]["ends_at"]]
    behind = [gate for gate in ended if gate["ends_at"] > ended[0]["ends_at"]]
    if not behind:
        return
    following = behind[0]
    low, high = following["passes_up_to"], following["ends_at"]
    yield {
        "name": "without the binding gate",
        "shown": False,
        "gates": binding,
        "next": following["ended_by"],
        "rates": [low, high],
        "replicas": [estimated_fleet(result, high), estimated_fleet(result, low)],
    }


def estimated_fleet(result: Json, rate: float) -> int:
    """Replicas by the formula of the first estimate, for replicas that pass at a rate, and one more for the drill."""
    demand: float = result["demand"]["target_rate"]
    plan = result["configuration"]["plan"]
    full = math.ceil(demand * (1 + _fraction(plan["reserve"])) / rate - 1e-9)
    drilled = math.ceil(demand / rate - 1e-9) + len(plan["drills"])
    return max(1, full, drilled)


def _fraction(share: str) -> float:
    return float(share.removesuffix("%")) / 100


def _without_drill(result: Json) -> Iterator[Json]:
    """Whether the fleet of one less fails by its drills alone, or by its reserve alone."""
    less = result["answer"]["one_less"]
    if less is None:
        return
    lost = [trial["name"] for trial in less["trials"] if trial["verdict"] != "pass"]
    full = "full fleet" in lost
    drills = [name for name in lost if name != "full fleet"]
    stated = result["configuration"]["plan"]["drills"]
    yield {
        "name": "the load that decides",
        "shown": True,
        "replicas": less["replicas"],
        "full_fleet": full,
        "drills": drills,
        "stated_drills": stated,
    }


def _more_demand(result: Json) -> Json:
    """The demand at which each load asks of a replica what it passes alone."""
    rate, plan = result["operating_point"]["rate"], result["configuration"]["plan"]
    replicas, target = result["answer"]["replicas"], result["demand"]["target_rate"]
    left = replicas - len(plan["drills"])
    most = min(rate * replicas / (1 + _fraction(plan["reserve"])), rate * left if left else math.inf)
    return {
        "name": "more demand",
        "shown": False,
        "rate": max(most, target),
        "share": max(most, target) / target - 1,
    }


def tries(constraint: str, gate: str, engine: Json) -> Json:
    """A setting to sweep, and what it is now."""
    metric = {"ttft": "ttft", "tpot": "tpot", "itl": "tpot"}.get(gate.partition(" ")[0], "")
    setting, effect = TRIES.get((constraint, metric)) or TRIES[constraint, ""]
    return {"setting": setting, "now": engine[setting.removeprefix("engine.")], "effect": effect}
