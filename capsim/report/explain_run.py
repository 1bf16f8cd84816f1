"""Why one simulation came out as it did, from its result alone: as plain data, and in sentences."""

from __future__ import annotations

import math
from typing import Any

from capsim.report import Json
from capsim.report.constraint import constraint
from capsim.report.explain import document
from capsim.report.explanation import heading, misses_used
from capsim.report.gates import limit, observed
from capsim.report.number import duration, number, share
from capsim.report.table import paragraph


def run_explanation(result: Json) -> Json:
    """Which gate came out worst, what was full, and where the time to the first token went.

    Args:
        result: as `capsim.plan.run_result.run_result` gives it.
    """
    summary = result["summary"]
    return {
        **heading(result),
        "load": {
            **{key: result["load"][key] for key in ("kind", "replicas", "rate", "concurrency")},
            "completed_rate": summary["throughput"]["requests"],
            "saturated_rate": result["saturated_rate"],
            "overloaded": result["overloaded"],
        },
        "passed": summary["passed"],
        "gates": sorted(map(_gate, summary["gates"]), key=_misses, reverse=True),
        "constraint": _constraint(result),
        "slowest_first_tokens": summary["ttft_parts_at_p95"],
    }


def _gate(gate: Json) -> Json:
    judged = gate["attained"] is not None
    return {**gate, "misses_used": misses_used(gate["attained"], gate["required"]) if judged else None}


def _misses(gate: Json) -> float:
    """A stated quality comes last, unless it is missed."""
    if gate["attained"] is None:
        return -1.0 if gate["passed"] else math.inf
    used = gate["misses_used"]
    return math.inf if used is None else float(used)


def _constraint(result: Json) -> Json:
    """What was full, or else slow."""
    summary = result["summary"]
    occupancy = summary["occupancy"]
    return constraint(
        pool_share=summary["kv_cache"]["pool_share"]["max"],
        preemptions=summary["counts"]["preemptions"],
        running=occupancy["running_mean"],
        max_num_seqs=result["configuration"]["engine"]["max_num_seqs"],
        waiting=occupancy["waiting_mean"],
        overloaded=bool(result["overloaded"]),
    )


def explained_run(why: Json) -> str:
    """A run in sentences.

    Args:
        why: as `run_explanation` gives it.
    """
    held = "every gate held" if why["passed"] else "not every gate held"
    return document(
        [f"{why['scenario']}: why {held} in this run"],
        ["WHICH LOAD", *paragraph(_load(why["load"]))],
        ["WHICH GATE", *(line for gate in why["gates"] for line in paragraph(_margin(gate), "-"))],
        ["WHICH CONSTRAINT", *paragraph(_full(why)), *_first_tokens(why)],
        [
            "WHAT WOULD CHANGE IT",
            *paragraph(
                "One run does not tell: capsim plan judges over several and finds where each gate ends."
            ),
        ],
    )


def _load(load: Json) -> str:
    replicas = f"{load['replicas']} replica{'' if load['replicas'] == 1 else 's'}"
    capacity = f"never idle they complete {number(load['saturated_rate'])}"
    if load["concurrency"] is not None:
        asked = f"{load['concurrency']} clients that wait for their answers"
        return (
            f"{asked}, on {replicas}: {number(load['completed_rate'])} requests/s were completed; {capacity}."
        )
    rate = "the trace at its own times" if load["rate"] is None else f"{number(load['rate'])} requests/s"
    over = f" Overloaded: {load['overloaded']}." if load["overloaded"] else ""
    return f"{rate[:1].upper()}{rate[1:]} on {replicas}; {capacity}.{over}"


def _margin(gate: Json) -> str:
    said = f"{gate['name']} {'holds' if gate['passed'] else 'is missed'}: {observed(gate)}, {limit(gate)}"
    if gate["attained"] is None:
        return f"{said}."
    return f"{said}; {share(gate['attained'])} inside where {share(gate['required'])} must be."


def _full(why: Json) -> str:
    found = why["constraint"]
    pool = f"the KV cache was up to {share(found['pool_share'])} full, with {number(found['preemptions'])} preemptions"
    batch = f"{number(found['running'])} of {number(found['max_num_seqs'])} sequences ran on average"
    slow = (
        "Neither memory nor batch was full"
        if why["passed"]
        else "Step time: neither memory nor batch was full"
    )
    name = {
        "KV cache": "The KV cache was full",
        "max_num_seqs": "The batch was full",
        "throughput": "Throughput: neither memory nor batch was full",
    }.get(found["name"], slow)
    return f"{name}: {pool}; {batch}, {number(found['waiting'])} waited."


def _first_tokens(why: Json) -> list[str]:
    """Where the time of a slow first token went: the largest part first."""
    parts: dict[str, Any] = why["slowest_first_tokens"] or {}
    known = {name: part for name, part in parts.items() if part}
    if not known:
        return []
    listed = ", ".join(
        f"{name.replace('_', ' ')} {duration(part)}"
        for name, part in sorted(known.items(), key=lambda pair: -pair[1])
    )
    return paragraph(f"The time to the first token of the request at p95: {listed}.")
