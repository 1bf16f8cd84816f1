from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from capsim import __version__
from capsim.cli.folder import RunFolder, json_text
from capsim.cli.options import run_folder_options
from capsim.documents.reading import load, read_text
from capsim.errors import BadInput, Fault, Infeasible
from capsim.plan.heading import SCHEMA_VERSION
from capsim.plan.infeasible import infeasible_result
from capsim.report.sweep import sweep_text
from capsim.report.text import plan_text, run_text
from capsim.scenario import Scenario

Json = dict[str, Any]

RESULT, COURSE, COMMAND = "result.json", "course.json", "command.txt"
SWEEP = "sweep.json"
TEXTS = {"capsim.plan": plan_text, "capsim.run": run_text, "capsim.sweep": sweep_text}
INFEASIBLE = "capsim.infeasible"
SIMULATED = ("capsim.plan", "capsim.run")
"""Answers that have the course of a run beside them."""
HOLDS = {RESULT: (*SIMULATED, INFEASIBLE), SWEEP: ("capsim.sweep",)}
"""Files with an answer, the first before the second where a folder has both, and what each may hold."""
UNUSABLE = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, StopIteration)
"""What comes of a value that is missing, of another type, or out of every range."""
LONGEST = 200
"""Characters that are repeated of what is wrong."""


@click.command()
@run_folder_options
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for figures and page; the run folder itself by default.",
)
def report(folder: Path, as_json: bool, out: Path | None) -> None:
    """Print an earlier answer again, and draw its figures and its page anew, from its run folder alone.

    Nothing is simulated. The folder is one that capsim plan, or capsim run or sweep with --out, has written. A sweep
    has no page: its picture is drawn.

    \b
    Examples:
      capsim report runs/chat-llama-3.1-8b-h200
      capsim report runs/chat-llama-3.1-8b-h200 --out for-the-meeting
      capsim report runs/rates
    """
    result = read_result(folder)
    if result["capsim_version"] != __version__:
        click.echo(f"written by capsim {result['capsim_version']}, drawn by capsim {__version__}", err=True)
    target = folder if out is None else RunFolder(out).path
    course = _course(folder) if result["schema"] in SIMULATED else None
    if course is None and result["schema"] in SIMULATED:
        what = "the page is drawn without the charts over time and the distributions"
        click.echo(f"warning: there is no {COURSE} in {folder}: {what}", err=True)
    command = _command(folder)
    with whole(folder, result, course):
        names = draw(result, target, course, command)
        text = json_text(result) if as_json else _text(result)
    click.echo(text)
    click.echo(f"written to {target}: {', '.join(names)}", err=True)


def draw(result: Json, folder: Path, course: Json | None = None, command: str = "") -> list[str]:
    """Draw a result's figures and its page, of a sweep its figure alone, into a folder; return their names."""
    if result["schema"] == "capsim.sweep":
        from capsim.report.sweep_figure import FIGURE, sweep_figure  # as below

        sweep_figure(result, folder / FIGURE)
        return [FIGURE]
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
    return [*names, *draw(result, folder.path, course, command)]


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
    name = next((name for name in HOLDS if (folder / name).is_file()), None)
    if name is None:
        what = f"is no run folder: there is no {RESULT} and no {SWEEP}"
        expected = "a folder that capsim plan, or capsim run or sweep with --out, has written"
        raise BadInput(Fault(str(folder), what, expected=expected))
    path, known = folder / name, HOLDS[name]
    result = load(path).data
    if result.get("schema") not in known:
        what = f"is a {result.get('schema', 'file without a schema')}"
        expected = f"one of {', '.join(known)}" if len(known) > 1 else known[0]
        raise BadInput(Fault(str(path), what, expected=expected))
    if result.get("schema_version") != SCHEMA_VERSION or "capsim_version" not in result:
        what = f"is of format {result.get('schema_version')}, by capsim {result.get('capsim_version', 'unknown')}"
        raise BadInput(
            Fault(str(path), what, expected=f"format {SCHEMA_VERSION}, as capsim {__version__} writes it")
        )
    return result


@contextmanager
def whole(folder: Path, result: Json, course: Json | None = None) -> Iterator[None]:
    """Refuse a run folder of whose files something cannot be used.

    Raises:
        BadInput: naming the result, or the course where the result alone can be drawn.
    """
    try:
        yield
    except UNUSABLE as error:
        damaged = course is not None and _can_be_drawn(result)
        schema = "capsim.course" if damaged else result["schema"]
        path = COURSE if damaged else SWEEP if schema == "capsim.sweep" else RESULT
        lacking = "lacks what" if isinstance(error, (LookupError, StopIteration)) else "does not hold what"
        detail = f": {error}"[:LONGEST] if str(error) else ""
        what = f"{lacking} a {schema} holds{detail}; written by capsim {result['capsim_version']}"
        raise BadInput(
            Fault(str(folder / path), what, expected=f"a result of capsim {__version__}")
        ) from error


def _can_be_drawn(result: Json) -> bool:
    from capsim.report.page.document import page_html

    try:
        page_html(result)
        _text(result)
    except UNUSABLE:
        return False
    return True


def _course(folder: Path) -> Json | None:
    """The course of one run, None where an earlier version kept none."""
    path = folder / COURSE
    return load(path).data if path.is_file() else None


def _command(folder: Path) -> str:
    path = folder / COMMAND
    return read_text(path).strip() if path.is_file() else ""


def _text(result: Json) -> str:
    if result["schema"] != INFEASIBLE:
        return TEXTS[result["schema"]](result)
    helps = (f"  would help: {remedy}" for remedy in result["remedies"])
    return "\n".join([result["scenario"], "", f"No feasible answer: {result['limit']}", *helps])
