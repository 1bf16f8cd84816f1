from __future__ import annotations

from pathlib import Path

import click

from capsim.cli.folder import json_text
from capsim.cli.options import read_scenario, scenario_options
from capsim.plan.deployment import build_cost, build_demand


@click.command()
@scenario_options
def check(scenario_file: Path, overrides: tuple[str, ...], seed: int | None, as_json: bool) -> None:
    """Read a scenario with its trace and profile, and report every mistake.

    \b
    Example:
      capsim check configs/scenarios/chat-llama-3.1-8b-h200.yaml
    """
    scenario = read_scenario(scenario_file, overrides, seed)
    demand, cost = build_demand(scenario), build_cost(scenario)
    description = demand.description()
    notes = list(description.get("notes", []))
    if as_json:
        click.echo(
            json_text(
                {
                    "scenario": scenario.name,
                    "faults": [],
                    "demand": description["kind"],
                    "step_cost": cost.description,
                    "notes": notes,
                }
            )
        )
        return
    click.echo(f"{scenario_file}: no fault found")
    click.echo(f"  {scenario.name}: {scenario.model.name} on {scenario.gpu.name}, {scenario.engine.name}")
    click.echo(f"  demand: {description['source']}")
    click.echo(f"  step cost: {cost.description}")
    for note in notes:
        click.echo(f"warning: {note}", err=True)
