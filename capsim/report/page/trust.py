"""How far to trust an answer: intervals, step cost, validation, what is assumed and what is left out."""

from __future__ import annotations

from collections.abc import Iterable

from capsim.report import Json
from capsim.report.confidence import (
    OUTSIDE,
    bracket,
    demand_warnings,
    replayed,
    replications,
    slower_steps,
    step_cost,
    validation,
)
from capsim.report.number import share
from capsim.report.page.block import Cell, Section, Statement, Statements, Table
from capsim.report.page.gate_table import judged_table
from capsim.report.page.tag import DERIVED, MEANINGS, STATED, Tag, simulated, step_parts, tag

WARNING = "WARNING: "


def plan_trust(result: Json, steps: Tag) -> tuple[Section, ...]:
    """What speaks for and against a plan."""
    confidence = result["confidence"]
    chance = [
        bracket(result),
        replications(confidence),
        slower_steps(confidence["slowdowns"]),
        *replayed(confidence["replays"], result["demand"]),
    ]
    said = statements(demand_warnings(result["demand"]), STATED)
    table = judged_table(result["operating_point"]["gates"], steps)
    quality = confidence["quality"]
    assumed = Statement(
        f"{quality[:1].upper()}{quality[1:]}.", STATED if "statement" in quality else tag("assumed")
    )
    return (
        Section("Gates at the operating point", (table,)),
        Section("Chance and margin", (statements(chance, steps),)),
        *step_sections(confidence["step_cost"], confidence["steps_outside"], confidence["validation"]),
        Section("Demand and answers", (Statements((*said.items, assumed)),)),
        not_modelled_section(confidence["not_modelled"]),
    )


def run_trust(result: Json) -> tuple[Section, ...]:
    """What speaks for and against one run."""
    outside = result["summary"]["steps_outside"]
    one = Statement("One run: no interval. A plan judges by independent replications.", DERIVED)
    said = statements(demand_warnings(result["demand"]), STATED)
    return (
        Section("Chance", (Statements((one,)),)),
        *step_sections(result["step_cost"], outside, result.get("validation")),
        *([Section("Demand", (said,))] if said.items else []),
        not_modelled_section(result["not_modelled"]),
    )


def step_sections(cost: Json, outside: float | None, known: Json | None) -> tuple[Section, ...]:
    """What the seconds of a step rest on, and how far off predictions for this service were."""
    steps = simulated(cost, outside)
    sections = [
        Section("Step cost", (statements(step_cost(cost, outside), steps), _parts(cost, outside, steps)))
    ]
    said = validation(known)
    if said:
        sections.append(Section("Validation", (statements(said, tag("measured")),)))
    else:
        none = Statement("No measured run of this service is known, nor how far off it is.", tag("assumed"))
        sections.append(Section("Validation", (Statements((none,)),)))
    return tuple(sections)


def statements(sentences: Iterable[str], known: Tag) -> Statements:
    """Sentences of the text report; what it marks as a warning is marked here too."""
    return Statements(
        tuple(
            Statement(_capital(sentence.removeprefix(WARNING)), known, warning=sentence.startswith(WARNING))
            for sentence in sentences
        )
    )


def not_modelled_section(names: list[str]) -> Section:
    """What the simulation leaves out."""
    return Section(
        "Not modelled",
        (Statements(tuple(Statement(f"{_capital(name)}.", tag("assumed")) for name in names)),),
    )


def _parts(cost: Json, outside: float | None, steps: Tag) -> Table:
    """The parts of the step cost by how they are known, and the steps outside the measured range."""
    parts = step_parts(cost)
    rows = [
        (Cell("", tag=tag(word)), Cell(", ".join(parts[word])), Cell(MEANINGS[word]))
        for word in MEANINGS
        if word in parts
    ]
    if cost["source"] in ("measured", "derived") and outside is not None and outside > OUTSIDE:
        said = f"{share(outside)} of the steps"
        rows.append((Cell("", tag=tag("extrapolated")), Cell(said, outside), Cell(MEANINGS["extrapolated"])))
    title = "What every simulated figure rests on"
    return Table(("tag", "parts of a step", "meaning"), "lll", tuple(rows), steps, caption=title)


def _capital(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"
