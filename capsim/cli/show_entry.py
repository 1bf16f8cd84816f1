from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any

import click

from capsim import documents
from capsim.catalog import gpu_names, load_model, model_names
from capsim.catalog.data import data_path
from capsim.catalog.figures import figures
from capsim.catalog.loader import known_gpu, known_model
from capsim.catalog.schema import closest
from capsim.catalog.unmodelled import unmodelled
from capsim.cli.catalog_profiles import on_option, profile_entries, profile_names, shipped_profiles
from capsim.cli.folder import json_text
from capsim.cli.options import json_option
from capsim.errors import BadInput, Fault
from capsim.report.catalog_entry import entry_text


@click.command()
@click.argument("name")
@on_option
@json_option
def show(name: str, on: datetime, as_json: bool) -> None:
    """Every figure of a model, a GPU or a profile of the catalog, with its source beside it.

    \b
    Examples:
      capsim catalog show llama-3.1-8b
      capsim catalog show h200 --json
    """
    result = _shown(name, on.date())
    click.echo(json_text(result) if as_json else entry_text(result))


def _shown(name: str, on: date) -> dict[str, Any]:
    """The entry of this name or alias, whichever kind it is of.

    Raises:
        BadInput: there is none, with the reason where it is known.
    """
    profiles, stem = profile_names(), Path(name).name.removesuffix(".json")
    model, gpu = known_model(name), known_gpu(name)
    if not model and not gpu and stem not in profiles:
        raise _unknown(name, profiles)
    entries = profile_entries(shipped_profiles(), on)
    if stem in profiles:
        return {"kind": "profile", **next(entry for entry in entries if entry["name"] == stem)}
    kind, known = ("model", model) if model else ("gpu", gpu)
    covering = [entry for entry in entries if entry[kind] == known]
    return {"kind": kind, **_entry(kind, known), "profiles": covering}


def _entry(kind: str, known: str) -> dict[str, Any]:
    path = data_path(f"{kind}s", f"{known}.yaml")
    data = documents.load(path).data
    stated = {
        "name": known,
        "aliases": data.get("aliases", []),
        "figures": [figure._asdict() for figure in figures(path)],
    }
    if kind == "gpu":
        return stated
    model = load_model(known)
    counted = {"parameters": model.parameters, "active_parameters": model.active_parameters}
    return {**stated, "source": model.source, **counted}


def _unknown(name: str, profiles: Sequence[str]) -> BadInput:
    """The refusal of a name, with the reason where one is known."""
    for kind in ("models", "gpus"):
        known = unmodelled(kind).get(name.lower())
        if known is not None:
            what = f"{name!r} is not in the catalog: {known.reason}"
            return BadInput(Fault("NAME", what, expected=known.instead))
    names = (*model_names(), *gpu_names(), *profiles)
    expected = "a model, a GPU or a profile that capsim catalog lists"
    return BadInput(Fault("NAME", f"{name!r} is not in the catalog", "", expected, closest(name, names)))
