"""What would change a plan's number, from its result alone, and what to try."""

from __future__ import annotations

import math
from collections.abc import Iterator

from capsim.report import Json
from capsim.units import parse_share

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


def changes(result: Json, gates: list[Json]) -> Iterator[Json]:
    """What would change the number: the binding gate, the drill or the reserve, the demand, and longer steps.

    Where the demand is the answer, how much more of it the fleet would serve is no estimate: none passed.
    """
    yield from _without_binding(result, gates)
    yield from _without_drill(result)
    if "served" not in result:
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
        **_estimated(result, low, high),
    }


def _estimated(result: Json, low: float, high: float) -> Json:
    """The answer by formula for replicas that pass between two rates: demands of a given fleet, or fleets."""
    if "served" in result:
        return {"demands": [estimated_demand(result, low), estimated_demand(result, high)]}
    return {"replicas": [estimated_fleet(result, high), estimated_fleet(result, low)]}


def estimated_fleet(result: Json, rate: float) -> int:
    """Replicas by the formula of the first estimate, for replicas that pass at a rate, and one more for the drill."""
    demand: float = result["demand"]["target_rate"]
    plan = result["configuration"]["plan"]
    full = math.ceil(demand * (1 + parse_share(plan["reserve"])) / rate - 1e-9)
    drilled = math.ceil(demand / rate - 1e-9) + len(plan["drills"])
    return max(1, full, drilled)


def estimated_demand(result: Json, rate: float) -> float:
    """Requests/s at which each load asks of a replica no more than a rate."""
    replicas, plan = result["answer"]["replicas"], result["configuration"]["plan"]
    left = replicas - len(plan["drills"])
    most: float = min(rate * replicas / (1 + parse_share(plan["reserve"])), rate * left if left else math.inf)
    return most


def _without_drill(result: Json) -> Iterator[Json]:
    """Whether what does not pass, a fleet of one less or more demand, fails by its drills or by its reserve alone."""
    beyond = result["served"]["above"] if "served" in result else result["answer"]["one_less"]
    if beyond is None:
        return
    lost = [trial["name"] for trial in beyond["trials"] if trial["verdict"] != "pass"]
    full = "full fleet" in lost
    drills = [name for name in lost if name != "full fleet"]
    stated = result["configuration"]["plan"]["drills"]
    yield {
        "name": "the load that decides",
        "shown": True,
        "replicas": beyond["replicas"],
        **_beyond(result),
        "full_fleet": full,
        "drills": drills,
        "stated_drills": stated,
    }


def _beyond(result: Json) -> Json:
    """The demand that does not pass, where the demand is the answer."""
    if "served" not in result:
        return {}
    return {"demand": result["served"]["bracket"][1], "unit": result["served"]["unit"]}


def _more_demand(result: Json) -> Json:
    """The demand at which each load asks of a replica what it passes alone."""
    target = result["demand"]["target_rate"]
    most = max(estimated_demand(result, result["operating_point"]["rate"]), target)
    return {"name": "more demand", "shown": False, "rate": most, "share": most / target - 1}


def tries(constraint: str, gate: str, engine: Json) -> Json:
    """A setting to sweep, and what it is now."""
    metric = {"ttft": "ttft", "tpot": "tpot", "itl": "tpot"}.get(gate.partition(" ")[0], "")
    setting, effect = TRIES.get((constraint, metric)) or TRIES[constraint, ""]
    return {"setting": setting, "now": engine[setting.removeprefix("engine.")], "effect": effect}
