from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from capsim import __version__
from capsim.cli.folder import RunFolder, json_text
from capsim.cli.options import run_folder_options
from capsim.errors import BadInput, Fault, Infeasible
from capsim.plan.infeasible import infeasible_result
from capsim.report.text import plan_text, run_text
from capsim.scenario import Scenario

Json = dict[str, Any]

RESULT, COURSE, COMMAND = "result.json", "course.json", "command.txt"
SCHEMA_VERSION = 1
"""Of the results that can be drawn."""
TEXTS = {"capsim.plan": plan_text, "capsim.run": run_text}
INFEASIBLE = "capsim.infeasible"


@click.command()
@run_folder_options
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for figures and page; the run folder itself by default.",
)
def report(folder: Path, as_json: bool, out: Path | None) -> None:
    """Print an earlier answer again, and draw its figures and its page anew, from its run folder alone.

    Nothing is simulated. The folder is one that capsim plan, or capsim run with --out, has written.

    \b
    Examples:
      capsim report runs/chat-llama-3.1-8b-h200
      capsim report runs/chat-llama-3.1-8b-h200 --out for-the-meeting
    """
    result = read_result(folder)
    if result["capsim_version"] != __version__:
        click.echo(f"written by capsim {result['capsim_version']}, drawn by capsim {__version__}", err=True)
    target = folder if out is None else RunFolder(out).path
    try:
        names = draw(result, _course(folder), _command(folder), target)
        text = _infeasible(result) if result["schema"] == INFEASIBLE else TEXTS[result["schema"]](result)
    except (KeyError, IndexError, StopIteration, TypeError) as error:
        what = f"lacks what a {result['schema']} holds: {error}; written by capsim {result['capsim_version']}"
        raise BadInput(
            Fault(str(folder / RESULT), what, expected=f"a result of capsim {__version__}")
        ) from error
    click.echo(json_text(result) if as_json else text)
    click.echo(f"written to {target}: {', '.join(names)}", err=True)


def draw(result: Json, course: Json | None, command: str, folder: Path) -> list[str]:
    """Draw a result's figures and its page into a folder; return their names."""
    from capsim.report.page.document import NAME, write_page

    names = []
    if result["schema"] == "capsim.plan":
        from capsim.report.figure import (
            knee_figure,  # matplotlib is slow to import: only where a figure is drawn
        )

        knee_figure(result, folder / "knee.png")
        names.append("knee.png")
    write_page(folder / NAME, result, course, command)
    return [*names, NAME]


def keep(folder: RunFolder, result: Json, course: Json | None = None) -> list[str]:
    """Keep a result with the command that asked for it and all that is drawn of it; return the names of the files."""
    command = str(click.get_current_context().find_root().obj or "")
    folder.write(RESULT, result)
    names = [RESULT]
    if course is not None:
        folder.write(COURSE, course)
        names.append(COURSE)
    if command:
        (folder.path / COMMAND).write_text(f"{command}\n", encoding="utf-8")
        names.append(COMMAND)
    return [*names, *draw(result, course, command, folder.path)]


@contextmanager
def infeasible_kept(out: Path | None, scenario: Scenario) -> Iterator[None]:
    """Leave in a folder too that there is no feasible answer, if there is one for the answer."""
    try:
        yield
    except Infeasible as error:
        if out is not None:
            names = keep(RunFolder(out), infeasible_result(scenario, error))
            click.echo(f"written to {out}: {', '.join(names)}", err=True)
        raise


def read_result(folder: Path) -> Json:
    """The result that a run folder holds.

    Raises:
        BadInput: the folder is no run folder, or its result is damaged or none that can be drawn.
    """
    path = folder / RESULT
    if not path.is_file():
        expected = "a folder that capsim plan, or capsim run with --out, has written"
        raise BadInput(Fault(str(folder), f"is no run folder: there is no {RESULT}", expected=expected))
    result = _read(path)
    known = [*TEXTS, INFEASIBLE]
    if result.get("schema") not in known:
        what = f"is a {result.get('schema', 'file without a schema')}"
        raise BadInput(Fault(str(path), what, expected=f"one of {', '.join(known)}"))
    if result.get("schema_version") != SCHEMA_VERSION or "capsim_version" not in result:
        what = f"is of format {result.get('schema_version')}, by capsim {result.get('capsim_version', 'unknown')}"
        raise BadInput(
            Fault(str(path), what, expected=f"format {SCHEMA_VERSION}, as capsim {__version__} writes it")
        )
    return result


def _course(folder: Path) -> Json | None:
    """The course of one run, None where an earlier version kept none."""
    path = folder / COURSE
    return _read(path) if path.is_file() else None


def _command(folder: Path) -> str:
    path = folder / COMMAND
    return path.read_text(encoding="utf-8").strip() if path.is_file() else ""


def _read(path: Path) -> Json:
    try:
        read = json.loads(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise BadInput(Fault(str(path), "is no text in UTF-8", expected="JSON as capsim wrote it")) from error
    except json.JSONDecodeError as error:
        expected = "JSON as capsim wrote it"
        fault = Fault(str(path), error.msg, expected=expected, line=error.lineno, column=error.colno)
        raise BadInput(fault) from error
    if not isinstance(read, dict):
        raise BadInput(Fault(str(path), "is no JSON object", expected="JSON as capsim wrote it"))
    return read


def _infeasible(result: Json) -> str:
    helps = (f"  would help: {remedy}" for remedy in result["remedies"])
    return "\n".join([result["scenario"], "", f"No feasible answer: {result['limit']}", *helps])
