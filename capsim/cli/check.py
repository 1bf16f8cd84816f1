from __future__ import annotations

from pathlib import Path

import click

from capsim.cli.folder import RunFolder, json_text
from capsim.cli.options import read_scenario, scenario_options
from capsim.plan.demand_record import priorities
from capsim.plan.deployment import build_cost, build_demand
from capsim.plan.validated import validation_of
from capsim.report.command_line import command_record, understood
from capsim.report.confidence import PRIORITIES_IGNORED


@click.command()
@scenario_options
def check(
    scenario_file: Path,
    overrides: tuple[str, ...],
    seed: int | None,
    as_json: bool,
    out: Path | None,
    jobs: int,  # noqa: ARG001 - every command takes it; there is nothing to simulate here
) -> None:
    """Read a scenario with its trace, profile and validation, and report every mistake.

    \b
    Example:
      capsim check configs/scenarios/chat-llama-3.1-8b-h200.yaml
    """
    scenario = read_scenario(scenario_file, overrides, seed)
    source, cost = build_demand(scenario), build_cost(scenario)
    demand = source.description()
    ignored = priorities(scenario, source) == "ignored"
    validation_of(scenario)
    command = scenario.command_line
    result = {
        "scenario": scenario.name,
        "faults": [],
        "model": scenario.model.name,
        "gpu": scenario.gpu.name,
        "engine": f"{scenario.engine.name} {scenario.engine.version}",
        "demand": demand["source"],
        "step_cost": cost.description,
        "command_line": None if command is None else command_record(command),
        "notes": [
            *([PRIORITIES_IGNORED] if ignored else []),
            *demand.get("notes", []),
            *(() if command is None else (*command.notes, *command.warnings)),
        ],
    }
    if out is not None:
        RunFolder(out).write("result.json", result)
    if as_json:
        click.echo(json_text(result))
        return
    click.echo(f"{scenario_file}: no fault found")
    for key in ("scenario", "model", "gpu", "engine", "demand", "step_cost"):
        click.echo(f"  {key.replace('_', ' '):<10}{result[key]}")
    for line in [] if command is None else understood(command):
        click.echo(f"  {line}")
    for note in result["notes"]:
        click.echo(f"warning: {note}", err=True)
