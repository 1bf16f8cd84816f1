"""Why a number is what it is, in sentences."""

from __future__ import annotations

from collections.abc import Iterator

from capsim.report import Json
from capsim.report.explanation import OVERLOAD
from capsim.report.gates import VERDICTS, limit, observed
from capsim.report.number import NOTHING, number, share
from capsim.report.table import paragraph, table


def explained_plan(why: Json) -> str:
    """Which load, gate and constraint make the number, of replicas or what they serve, and what would change it.

    Args:
        why: as `capsim.report.explanation.plan_explanation` gives it.
    """
    replicas = why["answer"]["replicas"]
    fleet = f"{replicas} replica{'' if replicas == 1 else 's'}"
    given = "served" in why
    serve = "serves" if replicas == 1 else "serve"
    asked = f"{fleet} {serve} {_bracket(why['served'])[0]}" if given else fleet
    return document(
        [f"{why['scenario']}: why {asked}"],
        *([["WHICH DEMAND", *_demands(why["served"])]] if given else []),
        ["WHICH LOAD", *_loads(why)],
        ["WHICH GATE", *_gates(why)],
        ["WHICH CONSTRAINT", *paragraph(_constraint(why["constraint"]))],
        ["WHAT WOULD CHANGE IT", *_changes(why)],
    )


def explained_infeasible(why: Json) -> str:
    """Why there is no answer."""
    helps = [line for remedy in why["remedies"] for line in paragraph(remedy, "-")]
    return document(
        [f"{why['scenario']}: why there is no feasible answer"],
        ["WHICH LIMIT", *paragraph(f"{why['limit'][:1].upper()}{why['limit'][1:]}.")],
        ["WHAT WOULD CHANGE IT", *(helps or paragraph("Nothing single is known to."))],
    )


def document(*sections: list[str]) -> str:
    """Sections with a blank line between them."""
    return "\n\n".join("\n".join(lines) for lines in sections) + "\n"


def _demand(value: float, unit: str) -> str:
    """With as many digits as tell one end of a bracket from the other."""
    return f"{value:.6g} {unit.replace('_', ' ')}/s"


def _bracket(served: Json) -> list[str]:
    return [_demand(end, served["unit"]) for end in served["bracket"]]


def _demands(served: Json) -> list[str]:
    """Between which demands the answer lies, and what does not pass at the upper one."""
    shown = "does not" if served["verdict"] == "fail" else "is not shown to"
    low, high = _bracket(served)
    lines = paragraph(f"{low} are the most that the fleet is shown to hold. At {high} it {shown}:")
    for load in served["above"]:
        lines += paragraph(f"{_judged(load)}. That is {_asked(load)}. {_full(load['constraint'])}.", "-")
    return lines


def _judged(trial: Json) -> str:
    reason = f": {trial['reason']}" if trial["reason"] else ""
    return f"{trial['name']}, {trial['load']}, {VERDICTS[trial['verdict']]}{reason}"


def _asked(load: Json) -> str:
    asked = f"{number(load['rate_per_replica'])} requests/s a replica"
    return f"{asked}, {share(load['share_of_operating_point'])} of what one passes alone"


def _full(found: Json) -> str:
    """What is full in the replicas of a fleet."""
    name = {"KV cache": "The KV cache is full", "max_num_seqs": "The batch is full"}.get(
        found["name"], f"{found['name'][:1].upper()}{found['name'][1:]}: neither memory nor batch is full"
    )
    pool = f"{share(found['pool_share'])} of the KV cache at most, {number(found['preemptions'])} preemptions a run"
    return (
        f"{name} ({pool}; {number(found['running'])} of {number(found['max_num_seqs'])} sequences on average)"
    )


def _loads(why: Json) -> list[str]:
    replicas = why["answer"]["replicas"]
    lines = paragraph(f"A fleet of {replicas} holds")
    for load in sorted(why["loads"], key=lambda load: -float(load["rate_per_replica"])):
        lines += paragraph(f"{load['name']}, {load['load']}: {_asked(load)}.{_tightest(load)}", "-")
    return lines + _one_less(why["one_less"])


def _tightest(load: Json) -> str:
    gate = load["tightest"]
    return "" if gate is None else f" Tightest is {gate['name']}: {margin(gate)}."


def margin(gate: Json) -> str:
    """How far inside its limit a gate is."""
    said = f"{observed(gate)} where {limit(gate)} is asked for"
    inside = f"{share(gate['attained']['low'])} surely inside where {share(gate['required'])} must be"
    return f"{said}, {inside}"


def _one_less(less: Json | None) -> list[str]:
    if less is None:
        return paragraph("One replica is the smallest fleet.")
    if less["verdict"] == "pass":
        return paragraph(f"A fleet of {less['replicas']} holds them too, within the bracket.")
    shown = "does not hold them" if less["verdict"] == "fail" else "is not shown to hold"
    lines = paragraph(f"A fleet of {less['replicas']} {shown}, so that this is the smallest:")
    for trial in less["trials"]:
        lines += paragraph(_judged(trial), "-")
    return lines


def _gates(why: Json) -> list[str]:
    header = (
        "gate",
        "observed",
        "limit",
        "limit\nused",
        "surely\ninside",
        "must\nbe",
        "passes\nto",
        "ends\nat",
    )
    rows = [
        (
            gate["name"],
            observed(gate),
            limit(gate).removeprefix("at most "),
            share(gate["used"]),
            NOTHING if gate["attained"] is None else share(gate["attained"]["low"]),
            share(gate["required"]),
            number(gate["passes_up_to"]),
            number(gate["ends_at"]) + ("*" if gate["ended_by"] == OVERLOAD else ""),
        )
        for gate in why["gates"]
    ]
    lines = paragraph("Of one replica at its operating point; rates in requests/s:") + table(
        header, "lrrrrrrr", rows
    )
    if any(gate["ended_by"] == OVERLOAD for gate in why["gates"]):
        lines += paragraph('"*": by overload, not by the gate.')
    return lines + paragraph(_order(why["gates"]))


def _order(gates: list[Json]) -> str:
    """Which gate ends first and which one is behind it, in words."""
    ended = [gate for gate in gates if gate["ends_at"] is not None]
    if not ended:
        return "No gate ends at any rate tried."
    first = ended[0]
    if first["ended_by"] == OVERLOAD:
        return f"Every gate holds until the replica is overloaded, at {number(first['ends_at'])}."
    binding = [gate for gate in ended if gate["ends_at"] == first["ends_at"]]
    names = " and ".join(gate["name"] for gate in binding)
    ends = f"{names} {'binds' if len(binding) == 1 else 'bind'}: at {number(first['ends_at'])}"
    ends += " it no longer passes." if len(binding) == 1 else " they no longer pass."
    behind = next((gate for gate in ended if gate["ends_at"] > first["ends_at"]), None)
    if behind is None:
        return ends
    higher = share(behind["ends_at"] / first["ends_at"] - 1)
    name = "overload" if behind["ended_by"] == OVERLOAD else behind["name"]
    return f"{ends} Behind is {name}, at {number(behind['ends_at'])}, {higher} higher."


def _constraint(found: Json) -> str:
    rate = number(found["rate"])
    pool = f"the KV cache is up to {share(found['pool_share'])} full"
    batch = f"{number(found['running'])} of {number(found['max_num_seqs'])} sequences run on average"
    match found["name"]:
        case "KV cache":
            what = f"The KV cache is full: at {rate} requests/s it is up to {share(found['pool_share'])} used, with "
            return what + f"{number(found['preemptions'])} preemptions a run; {batch}."
        case "max_num_seqs":
            return f"The batch is full: at {rate} requests/s {batch} and {number(found['waiting'])} wait; {pool}."
        case "throughput":
            what = (
                f"Throughput: {rate} requests/s are {share(found['share_of_saturated'])} of what a replica "
            )
            return what + f"completes when it is never idle. Neither is full: {pool}, {batch}."
    what = f"Step time: at {rate} requests/s neither memory nor batch is full ({pool}, {batch}), and the replica "
    what += f"could complete more: it is {share(found['share_of_saturated'])} of the rate when never idle. "
    useless = (
        "A larger max_num_seqs" if found["prefix_hit_rate"] else "More KV cache or a larger max_num_seqs"
    )
    return f"{what}{useless} would change nothing; shorter steps would."


def _changes(why: Json) -> list[str]:
    lines: list[str] = []
    for sentence in (*_sentences(why["changes"]), _try(why["try"])):
        lines += paragraph(sentence, "-")
    return lines


def _sentences(changes: list[Json]) -> Iterator[str]:
    for change in changes:
        yield SENTENCES[change["name"]](change)


def _without_binding(change: Json) -> str:
    low, high = change["rates"]
    if "demands" in change:
        answer = f"{' to '.join(map(number, change['demands']))} requests/s"
    else:
        least, most = change["replicas"]
        answer = f"{most if least == most else f'{least} to {most}'} replicas"
    return (
        f"Without {' and '.join(change['gates'])} a replica passes at {number(low)} and no longer at {number(high)} "
        f"requests/s ({change['next']}): {answer} by the formula. An estimate, not simulated."
    )


def _deciding_load(change: Json) -> str:
    fleet, drills = f"a fleet of {change['replicas']}", " and ".join(change["drills"])
    if "demand" in change:
        fleet = f"the fleet at {_demand(change['demand'], change['unit'])}"
    if not change["full_fleet"]:
        said = f"Without {drills}, {fleet} would do: it passes with all of its replicas."
    elif change["drills"]:
        said = f"Neither the reserve nor {drills} decides alone: {fleet} passes under none of them."
    elif change["stated_drills"]:
        said = (
            f"The reserve decides: {fleet} passes {' and '.join(change['stated_drills'])}, not the full load."
        )
    else:
        said = f"The full load with its reserve decides: {fleet} does not pass."
    return f"{said} Shown in simulation."


def _more_demand(change: Json) -> str:
    if not change["share"]:
        return "No room for more demand: each replica is at or above what one passes alone. An estimate."
    more = f"up to about {number(change['rate'])} requests/s ({share(change['share'])} more)"
    return (
        f"The fleet has room {more}, until a replica gets what one passes alone. An estimate, not simulated."
    )


def _longer_steps(change: Json) -> str:
    held, lost = 100 * (change["holds_at"] - 1), change["lost_at"]
    holds = f"With every step {number(held)}% longer it still holds" if held else ""
    if lost is None:
        return f"{holds}, the longest tried. Shown in simulation."
    end = "it does not hold" if change["verdict"] == "fail" else "it is not shown to hold"
    start = f"{holds}; with" if holds else "With every step"
    return f"{start} {number(100 * (lost - 1))}% longer {end}. Shown in simulation."


SENTENCES = {
    "without the binding gate": _without_binding,
    "the load that decides": _deciding_load,
    "more demand": _more_demand,
    "longer steps": _longer_steps,
}


def _try(try_: Json) -> str:
    return f"Worth a sweep: {try_['setting']}, now {try_['now']}: {try_['effect']}."
