from __future__ import annotations

from pathlib import Path

import click

from capsim.catalog.data import data_names, data_path
from capsim.catalog.schema import closest
from capsim.cli.folder import json_text
from capsim.cli.written import write_whole
from capsim.errors import BadInput, Fault
from capsim.scenario.schema import FILE, scenario_schema


@click.command()
@click.argument("name", required=False)
@click.option("--list", "listed", is_flag=True, help="List the starters, as without a name.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    show_default="NAME.yaml",
    help="File for the scenario; one that is there is kept.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
def init(name: str | None, listed: bool, out: Path | None, as_json: bool) -> None:
    """Write a commented scenario to begin with.

    Each starter is complete: `capsim check` accepts it, `capsim plan` answers it. The schema that editors complete keys
    from goes beside it; one that is there is kept, with a warning if it is not this version's.

    \b
    Examples:
      capsim init --list
      capsim init chat
      capsim init rag --out scenarios/questions.yaml
    """
    starters = {file.removesuffix(".yaml"): _summary(file) for file in data_names("starters", (".yaml",))}
    if name is None or listed:
        _list(starters, as_json)
        return
    if name not in starters:
        what = f"there is no starter {name!r}"
        raise BadInput(Fault("NAME", what, "", f"one of {', '.join(starters)}", closest(name, starters)))
    scenario = out or Path(f"{name}.yaml")
    schema = scenario.parent / FILE
    text = data_path("starters", f"{name}.yaml").read_text(encoding="utf-8")
    write_whole(scenario, text.replace(f"$schema=../{FILE}", f"$schema={FILE}"), replace=False)
    written = [scenario]
    current = json_text(scenario_schema()) + "\n"
    if not schema.exists():
        write_whole(schema, current, replace=False)
        written.append(schema)
    elif schema.is_file() and schema.read_bytes() != current.encode():
        anew = f"capsim schema --out {schema} writes it anew"
        click.echo(f"warning: {schema} is kept, and is not the schema of this version; {anew}", err=True)
    if as_json:
        click.echo(json_text({"starter": name, "written": [str(path) for path in written]}))
        return
    for path in written:
        click.echo(f"written: {path}")
    click.echo(f"next: capsim check {scenario}, then capsim plan {scenario}")


def _summary(file: str) -> str:
    """What a starter is for: its second line, after the one for editors."""
    with data_path("starters", file).open(encoding="utf-8") as lines:
        next(lines)
        return next(lines).removeprefix("# ").strip()


def _list(starters: dict[str, str], as_json: bool) -> None:
    if as_json:
        click.echo(json_text({"starters": starters}))
        return
    width = max(map(len, starters))
    for name, summary in starters.items():
        click.echo(f"{name:{width}}  {summary}")
