"""A question without a feasible answer as a page: which limit, by how much, and what would help."""

from __future__ import annotations

from capsim.report import Json
from capsim.report.named import named
from capsim.report.page.block import Cell, Page, Section, Statement, Statements
from capsim.report.page.evidence import identity, scenario_section
from capsim.report.page.tag import DERIVED


def infeasible_page(result: Json, course: Json | None, command: str) -> Page:
    """Everything that is known of an answer that does not exist.

    Args:
        result: as `capsim.plan.infeasible.infeasible_result` gives it.
        course: of a run; there is none to show.
        command: that asked; empty: not known.
    """
    del course
    configuration = result["configuration"]
    engine = configuration["engine"]
    helps = tuple(Statement(remedy, DERIVED) for remedy in result["remedies"])
    return Page(
        scenario=result["scenario"],
        subject=f"{named(configuration, 'model')} on {named(configuration, 'gpu')}, "
        f"{engine['name']} {engine['version']}",
        kind="plan",
        headline=Cell("No"),
        unit="feasible answer",
        standing="fail",
        sentence=f"{result['limit'][:1].upper()}{result['limit'][1:]}.",
        tag=DERIVED,
        trust=(Section("What would help", (Statements(helps),)),) if helps else (),
        evidence=(scenario_section(result),),
        command=command,
        identity=identity(result),
    )
