from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from capsim.catalog import Model, gpu_names, load_gpu, load_model, model_names, read_config
from capsim.catalog.data import data_names, data_path
from capsim.catalog.entry import entry_text
from capsim.catalog.loader import is_path, known_model
from capsim.cli.folder import json_text
from capsim.cost import Efficiency, Profile, load_profile
from capsim.errors import BadInput, Fault
from capsim.memory import KvLayout
from capsim.report.catalog import catalog_text, entry_report

CONTEXTS = (1024, 8192, 32768, 131072)
"""Tokens of the requests whose KV cache is shown, as far as the model's longest."""


@click.group(invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Print the list as JSON.")
@click.pass_context
def catalog(context: click.Context, as_json: bool) -> None:
    """What scenarios can name: list it, which is also what happens without a command, or add a model.

    \b
    Examples:
      capsim catalog --json
      capsim catalog add-model config.json
    """
    if context.invoked_subcommand is None:
        context.invoke(list_all, as_json=as_json)


@catalog.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
def list_all(as_json: bool) -> None:
    """Models, GPUs and profiles that scenarios can name, and what the roofline's factors rest on.

    The same as capsim catalog alone.

    \b
    Example:
      capsim catalog list --json
    """
    result = _catalog()
    click.echo(json_text(result) if as_json else catalog_text(result))


@catalog.command()
@click.argument("config", metavar="CONFIG", type=click.Path(path_type=Path))
@click.option("--name", help="Name of the model; that of the file's folder if not given.")
@click.option(
    "--alias",
    "aliases",
    multiple=True,
    help="A further name of it in the catalog, beside its own. May be repeated.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File of the entry; the model's name with .yaml, in this folder, if not given.",
)
@click.option("--json", "as_json", is_flag=True, help="Print what was understood as JSON.")
def add_model(
    config: Path, name: str | None, aliases: tuple[str, ...], out: Path | None, as_json: bool
) -> None:
    """Write a catalog entry from the config.json that is published with a model on Hugging Face.

    A scenario names the entry by its path, such as model: my-model.yaml. What was understood is printed: check it. What
    may change the weights or the KV cache and is not understood is refused.

    \b
    Example:
      capsim catalog add-model Meta-Llama-3.1-8B/config.json --name my-llama --alias my/Llama
    """
    named = Path(os.path.realpath(config)).parent.name or "model" if name is None else name
    _refuse_names(named, aliases)
    model = read_config(config, named)
    target = Path(f"{Path(named).name}.yaml") if out is None else out
    _write_new(target, entry_text(model, aliases))
    result = _understood(model, aliases, target)
    click.echo(json_text(result) if as_json else entry_report(result))


def _refuse_names(name: str, aliases: tuple[str, ...]) -> None:
    """A shipped model's name would go with its profiles, which are of another model; a path is no name.

    Raises:
        BadInput: every name at fault.
    """
    faults = []
    for option, given in (("--name", name), *(("--alias", alias) for alias in aliases)):
        known = known_model(given)
        if known:
            faults.append(Fault(option, f"{given!r} is in the catalog, as {known}", expected="another name"))
        elif not given.strip() or is_path(given):
            faults.append(Fault(option, f"{given!r} is no name", expected="one that does not end in .yaml"))
    if faults:
        raise BadInput(*faults)


def _write_new(path: Path, text: str) -> None:
    """Write a file that is not there yet.

    Raises:
        BadInput: it is, or cannot be written.
    """
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        what = f"cannot write {path}: {error.strerror}"
        raise BadInput(Fault("--out", what, expected="a new file in a folder that is there")) from error


def _understood(model: Model, aliases: tuple[str, ...], path: Path) -> dict[str, Any]:
    layout = KvLayout.of(model, 1, "bfloat16", 16)
    longest = model.max_position_embeddings
    contexts = [*(tokens for tokens in CONTEXTS if tokens < longest), longest]
    return {
        "file": str(path),
        "model": {
            **asdict(model),
            "parameters": model.parameters,
            "active_parameters": model.active_parameters,
            "aliases": list(aliases),
        },
        "layers": [
            {"kind": group.attention.kind, "layers": len(group.layers)} for group in model.layer_groups
        ],
        "kv": {
            "dtype": "bfloat16",
            "bytes_per_token": layout.bytes_per_token if layout.plain else None,
            "requests": [
                {"tokens": tokens, "bytes": layout.blocks(tokens) * layout.bytes_per_block}
                for tokens in contexts
            ],
        },
    }


def _catalog() -> dict[str, Any]:
    # They read tables: only where they are asked for.
    from calibrate.efficiency import efficiencies, expert_efficiencies, spread

    models = {name: load_model(name) for name in model_names()}
    gpus = {name: load_gpu(name) for name in gpu_names()}
    profiles = {
        name: load_profile(data_path("profiles", name)) for name in data_names("profiles", (".json",))
    }
    known = (list(profiles.values()), models, gpus)
    spreads = {**spread(efficiencies(*known)), **spread(expert_efficiencies(*known))}
    return {
        "models": [
            {**asdict(model), "parameters": model.parameters, "name": name} for name, model in models.items()
        ],
        "gpus": [{**asdict(gpu), "name": name} for name, gpu in gpus.items()],
        "profiles": [_profile(name, profile) for name, profile in profiles.items()],
        "roofline": [
            {
                "name": name,
                **factor._asdict(),
                "profiles": asdict(spreads[name]) if name in spreads else None,
            }
            for name, factor in Efficiency().describe().items()
        ],
    }


def _profile(name: str, profile: Profile) -> dict[str, Any]:
    stated = asdict(profile.provenance)
    return {"name": Path(name).stem, "ranges": dict(profile.ranges), **stated, "files": list(stated["files"])}
