from __future__ import annotations

from pathlib import Path

import click

from capsim.cli.folder import json_text
from capsim.cli.written import write_whole
from capsim.scenario.schema import scenario_schema


@click.command()
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="File for the schema; replaced.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print the answer as JSON, as which the schema always is."
)
def schema(out: Path | None, as_json: bool) -> None:
    """Print the JSON Schema of a scenario file, for editors.

    An editor completes keys with it, says what they mean, and marks values of a wrong kind. A scenario names it in its
    first line: # yaml-language-server: $schema=scenario.schema.json

    \b
    Example:
      capsim schema --out scenario.schema.json
    """
    text = json_text(scenario_schema())
    if out is None:
        click.echo(text)
        return
    write_whole(out, text + "\n")
    click.echo(json_text({"written": [str(out)]}) if as_json else f"written: {out}")
