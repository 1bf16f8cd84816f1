"""A plan as a page: the answer, how far to trust it, and what it rests on."""

from __future__ import annotations

from capsim.plan.replicas import first_estimate
from capsim.report import Json
from capsim.report.evidence import target
from capsim.report.gates import VERDICTS, limit
from capsim.report.named import named
from capsim.report.number import count, number
from capsim.report.page.block import Cell, Fact, Page, Statement, Statements, Terms
from capsim.report.page.evidence import (
    course_sections,
    demand_section,
    identity,
    memory_section,
    priority_section,
    scenario_section,
    subject,
)
from capsim.report.page.plan_evidence import (
    baseline_section,
    fleets_section,
    knee_section,
    rates_section,
    replays_section,
    slowdowns_section,
    sweep_section,
)
from capsim.report.page.tag import DERIVED, STATED, Tag, simulated
from capsim.report.page.trust import plan_trust


def plan_page(result: Json, course: Json | None, command: str) -> Page:
    """Everything that a plan's page says.

    Args:
        result: as `capsim.plan.plan_result.plan_result` gives it.
        course: of one run of the chosen fleet, as `capsim.plan.course.course_result` gives it; None: not kept.
        command: that asked for the plan; empty: not known.
    """
    answer, confidence = result["answer"], result["confidence"]
    steps = simulated(confidence["step_cost"], confidence["steps_outside"])
    replicas, gpus = answer["replicas"], answer["gpus"]
    gates = result["operating_point"]["gates"]
    evidence = [
        knee_section(result),
        sweep_section(result),
        fleets_section(result, steps),
        *course_sections(course, gates, steps),
        priority_section((course or {}).get("priorities", []), steps),
        slowdowns_section(confidence["slowdowns"], steps),
        replays_section(confidence["replays"], steps),
        baseline_section(result["baseline"], steps),
        rates_section(result, steps),
        demand_section(result["demand"]),
        memory_section(result["memory"]),
        scenario_section(result),
    ]
    return Page(
        scenario=result["scenario"],
        subject=subject(result),
        kind="plan",
        headline=Cell(count(replicas), replicas),
        unit="replica" if replicas == 1 else "replicas",
        standing=answer["chosen"]["verdict"],
        sentence=(
            f"{count(gpus)} x {named(result['configuration'], 'gpu')}, {count(gpus // replicas)} a replica, "
            f"serve{'s' if replicas == 1 else ''} {target(result['demand'])} inside every objective, with "
            f"{result['configuration']['plan']['reserve']} in reserve."
        ),
        tag=steps,
        facts=_facts(result, steps),
        answer=(_loads(result, steps), _objectives(gates), *_differs(answer, steps)),
        trust=plan_trust(result, steps),
        evidence=tuple(section for section in evidence if section is not None),
        command=command,
        identity=identity(result),
    )


def _facts(result: Json, steps: Tag) -> tuple[Fact, ...]:
    point, binding = result["operating_point"], result["binding"]
    low, high = point["bracket"]
    at_high = next(tested["verdict"] for tested in result["sweep"] if tested["rate"] == high)
    gates = " and ".join(binding["gates"])
    return (
        Fact(
            "Operating point of one replica",
            Cell(f"{number(point['rate'])}/s", point["rate"]),
            f"passes at {number(low)}, {VERDICTS[at_high].removeprefix('is ')} at {number(high)} requests/s; goodput "
            f"{number(point['goodput'])}/s",
            steps,
        ),
        Fact(
            "Binding gate",
            Cell(gates),
            f"the first that no longer passes, at {number(binding['at_rate'])} requests/s a replica",
            steps,
        ),
        _deciding(result["answer"], steps),
        _reserve(result),
    )


def _deciding(answer: Json, steps: Tag) -> Fact:
    """What keeps the fleet from being smaller."""
    less = answer["one_less"]
    if less is None:
        return Fact("What decides", Cell("nothing smaller"), "one replica is the smallest fleet", DERIVED)
    missed = sorted(
        (trial for trial in less["trials"] if trial["verdict"] != "pass"),
        key=lambda trial: trial["verdict"] != "fail",
    )
    reasons = "; ".join(
        f"{trial['load']} {VERDICTS[trial['verdict']]}: {trial['reason']}" for trial in missed
    )
    what = f"What rules out {count(less['replicas'])}"
    return Fact(what, Cell(missed[0]["name"].replace("_", " ")), reasons, steps)


def _reserve(result: Json) -> Fact:
    """What the reserve costs by the first estimate: nobody simulated the fleet without it."""
    answer, demand = result["answer"], result["demand"]
    without = first_estimate(demand["target_rate"], result["operating_point"]["goodput"], 0.0)
    more = answer["estimate"] - without
    text = f"{count(more)} replica{'' if more == 1 else 's'}"
    estimate = f"{answer['estimate_formula']} = {count(answer['estimate'])}"
    note = f"first estimate {estimate}, without reserve {count(without)}"
    return Fact(
        f"Cost of {result['configuration']['plan']['reserve']} reserve", Cell(text, more), note, DERIVED
    )


def _loads(result: Json, steps: Tag) -> Terms:
    """Each load that the chosen fleet was tried under."""
    trials = result["answer"]["chosen"]["trials"]
    said = ((_trial(trial), Cell(VERDICTS[trial["verdict"]], verdict=trial["verdict"])) for trial in trials)
    return Terms(tuple(said), steps, "Loads")


def _trial(trial: Json) -> str:
    name: str = trial["name"]
    return f"{name.replace('_', ' ')}, {trial['load']}"


def _differs(answer: Json, steps: Tag) -> tuple[Statements, ...]:
    """Why the answer is not the first estimate; nothing where it is."""
    if not answer["estimate_differs"]:
        return ()
    said = f"Not the first estimate of {answer['estimate']}: {answer['estimate_differs']}."
    return (Statements((Statement(said, steps),)),)


def _objectives(gates: list[Json]) -> Terms:
    said = ((gate["name"], Cell(limit(gate), gate["limit"])) for gate in gates)
    return Terms(tuple(said), STATED, "Objectives")
