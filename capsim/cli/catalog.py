from __future__ import annotations

from dataclasses import asdict
from datetime import date, datetime
from typing import Any

import click

from capsim.catalog import gpu_names, load_gpu, load_model, model_names
from capsim.cli.add_gpu import add_gpu
from capsim.cli.add_model import add_model
from capsim.cli.catalog_profiles import on_option, profile_entries, shipped_profiles
from capsim.cli.folder import json_text
from capsim.cli.show_entry import show
from capsim.cost import Efficiency
from capsim.report.catalog import catalog_text


@click.group(invoke_without_command=True)
@on_option
@click.option("--json", "as_json", is_flag=True, help="Print the list as JSON.")
@click.pass_context
def catalog(context: click.Context, on: datetime, as_json: bool) -> None:
    """What scenarios can name: list it, which is also what happens without a command, show one, or add one.

    \b
    Examples:
      capsim catalog --json
      capsim catalog show h200
      capsim catalog add-model config.json
    """
    if context.invoked_subcommand is None:
        context.invoke(list_all, on=on, as_json=as_json)


@catalog.command("list")
@on_option
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
def list_all(on: datetime, as_json: bool) -> None:
    """Models, GPUs and profiles that scenarios can name, and what the roofline's factors rest on.

    Of each profile: what it covers, which engine was measured, when, and how long ago that is. The same as capsim
    catalog alone.

    \b
    Example:
      capsim catalog list --json
    """
    result = _catalog(on.date())
    click.echo(json_text(result) if as_json else catalog_text(result))


for command in (show, add_model, add_gpu):
    catalog.add_command(command)


def _catalog(on: date) -> dict[str, Any]:
    # They read tables: only where they are asked for.
    from calibrate.efficiency import efficiencies, expert_efficiencies, spread

    models = {name: load_model(name) for name in model_names()}
    gpus = {name: load_gpu(name) for name in gpu_names()}
    profiles = shipped_profiles()
    known = (list(profiles.values()), models, gpus)
    spreads = {**spread(efficiencies(*known)), **spread(expert_efficiencies(*known))}
    return {
        "models": [
            {**asdict(model), "parameters": model.parameters, "name": name} for name, model in models.items()
        ],
        "gpus": [{**asdict(gpu), "name": name} for name, gpu in gpus.items()],
        "profiles": profile_entries(profiles, on),
        "roofline": [
            {
                "name": name,
                **factor._asdict(),
                "profiles": asdict(spreads[name]) if name in spreads else None,
            }
            for name, factor in Efficiency().describe().items()
        ],
    }
