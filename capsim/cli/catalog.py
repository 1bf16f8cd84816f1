from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from capsim.catalog import gpu_names, load_gpu, load_model, model_names
from capsim.catalog.data import data_names, data_path
from capsim.cli.folder import json_text
from capsim.cost import Efficiency, Profile, load_profile
from capsim.report.catalog import catalog_text


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
def catalog(as_json: bool) -> None:
    """Models, GPUs and profiles that scenarios can name, and what the roofline's factors rest on.

    \b
    Example:
      capsim catalog --json
    """
    result = _catalog()
    click.echo(json_text(result) if as_json else catalog_text(result))


def _catalog() -> dict[str, Any]:
    from calibrate.efficiency import efficiencies, spread  # reads tables: only where they are asked for

    models = {name: load_model(name) for name in model_names()}
    gpus = {name: load_gpu(name) for name in gpu_names()}
    profiles = [load_profile(data_path("profiles", name)) for name in data_names("profiles", (".json",))]
    spreads = spread(efficiencies(profiles, models, gpus))
    return {
        "models": [
            {**asdict(model), "parameters": model.parameters, "name": name} for name, model in models.items()
        ],
        "gpus": [{**asdict(gpu), "name": name} for name, gpu in gpus.items()],
        "profiles": [_profile(profile) for profile in profiles],
        "roofline": [
            {
                "name": name,
                **factor._asdict(),
                "profiles": asdict(spreads[name]) if name in spreads else None,
            }
            for name, factor in Efficiency().describe().items()
        ],
    }


def _profile(profile: Profile) -> dict[str, Any]:
    stated = asdict(profile.provenance)
    return {"ranges": dict(profile.ranges), **stated, "files": list(stated["files"])}
