from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from capsim.catalog import Model, read_config
from capsim.catalog.entry import entry_text
from capsim.catalog.loader import known_model
from capsim.cli.folder import json_text
from capsim.cli.new_entry import entry_options, refuse_names, write_new
from capsim.memory import KvLayout
from capsim.report.catalog_entry import model_report

CONTEXTS = (1024, 8192, 32768, 131072)
"""Tokens of the requests whose KV cache is shown, as far as the model's longest."""


@click.command()
@click.argument("config", metavar="CONFIG", type=click.Path(path_type=Path))
@click.option("--name", help="Name of the model; that of the file's folder if not given.")
@entry_options("model")
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
    refuse_names(named, aliases, known_model)
    model = read_config(config, named)
    target = Path(f"{Path(named).name}.yaml") if out is None else out
    write_new(target, entry_text(model, aliases))
    result = _understood(model, aliases, target)
    click.echo(json_text(result) if as_json else model_report(result))


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
