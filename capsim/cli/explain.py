from __future__ import annotations

from pathlib import Path

import click

from capsim.cli.folder import RunFolder, json_text
from capsim.cli.options import run_folder_options
from capsim.cli.report import SWEEP, read_result, whole
from capsim.errors import BadInput, Fault
from capsim.report.explain import explained_infeasible, explained_plan
from capsim.report.explain_run import explained_run, run_explanation
from capsim.report.explanation import infeasible_explanation, plan_explanation

EXPLANATIONS = {
    "capsim.plan": (plan_explanation, explained_plan),
    "capsim.run": (run_explanation, explained_run),
    "capsim.infeasible": (infeasible_explanation, explained_infeasible),
}


@click.command()
@run_folder_options
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for the explanation as explanation.json; made if need be.",
)
def explain(folder: Path, as_json: bool, out: Path | None) -> None:
    """Why is the answer what it is: which load, which gate, which constraint, and what would change it?

    Nothing is simulated: it is read from a run folder that capsim plan, or capsim run with --out, has written.

    \b
    Example:
      capsim explain runs/chat-llama-3.1-8b-h200
    """
    result = read_result(folder)
    if result["schema"] not in EXPLANATIONS:
        what = f"is a sweep's folder: {SWEEP} holds many points, and no answer to explain"
        expected = "a folder of capsim plan or run; capsim report prints a sweep again"
        raise BadInput(Fault(str(folder), what, expected=expected))
    explanation, text = EXPLANATIONS[result["schema"]]
    with whole(folder, result):
        why = explanation(result)
        said = json_text(why) if as_json else text(why)
    if out is not None:
        RunFolder(out).write("explanation.json", why)
    click.echo(said, nl=as_json)
