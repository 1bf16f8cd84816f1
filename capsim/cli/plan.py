from __future__ import annotations

from pathlib import Path

import click

from capsim.cli.folder import RunFolder, json_text
from capsim.cli.options import read_scenario, scenario_options
from capsim.cli.progress import Watch
from capsim.cli.report import infeasible_kept, keep
from capsim.errors import BadInput, Fault
from capsim.plan.course import course_result
from capsim.plan.deployment import Deployment, deploy
from capsim.plan.experiment import measure, record
from capsim.plan.ledger import Ledger
from capsim.plan.plan_result import plan_result
from capsim.plan.planner import Plan, make_inverse_plan, make_plan, representative
from capsim.plan.runner import Runner
from capsim.report.requests import write_requests
from capsim.report.text import plan_text
from capsim.scenario import resolved


@click.command()
@scenario_options
@click.option(
    "--replicas",
    type=click.IntRange(min=1),
    help="Ask the other way round: which demand do so many replicas serve? The scenario's target plays no part.",
)
def plan(
    scenario_file: Path,
    overrides: tuple[str, ...],
    seed: int | None,
    as_json: bool,
    out: Path | None,
    jobs: int,
    replicas: int | None,
) -> None:
    """How many replicas serve the demand inside every objective, with reserve and a replica missing?

    With --replicas: which demand do so many serve, and what ends it? The answer is a plan of that demand.

    Writes a run folder (runs/NAME by default): a page for people (report.html), result.json, the resolved scenario,
    requests and course of one run of the chosen fleet, knee.png. Interrupted, it keeps what is done; the same command
    goes on from there.

    \b
    Examples:
      capsim plan configs/scenarios/chat-llama-3.1-8b-h200.yaml
      capsim plan configs/scenarios/chat-llama-3.1-8b-h200.yaml --set demand.target=200/s --out runs/peak
      capsim plan configs/scenarios/chat-llama-3.1-8b-h200.yaml --replicas 12
    """
    scenario = read_scenario(scenario_file, overrides, seed)
    _refuse_too_many(replicas, scenario.plan.max_replicas)
    path = out or Path("runs") / scenario.name
    with infeasible_kept(path, scenario):
        deployment = deploy(scenario)
        folder = RunFolder(path)
        folder.write("scenario.json", resolved(scenario))
        answer = _answer(deployment, folder, jobs, replicas)
        folder.write("scenario.json", resolved(answer.deployment.scenario))
    result = plan_result(answer)
    experiment = representative(answer)
    planned = answer.deployment
    log = record(planned, experiment)
    write_requests(log, folder.path / "requests.csv")
    course = course_result(planned, experiment, log, measure(planned, experiment, log))
    names = keep(folder, result, course)
    click.echo(json_text(result) if as_json else plan_text(result))
    click.echo(f"written to {folder.path}: scenario.json, requests.csv, {', '.join(names)}", err=True)


def _refuse_too_many(replicas: int | None, most: int) -> None:
    """A fleet is simulated whole; one beyond what a plan may try is a slip, or says so in the scenario."""
    if replicas is not None and replicas > most:
        raise BadInput(
            Fault("--replicas", f"{replicas:,}", expected=f"at most plan.max_replicas, which is {most:,}")
        )


def _answer(deployment: Deployment, folder: RunFolder, jobs: int, replicas: int | None) -> Plan:
    """Plan; an interruption leaves what was simulated in the folder."""
    ledger = Ledger(folder.path / "experiments.jsonl")
    try:
        with Watch() as progress:
            runner = Runner(deployment, jobs, ledger, progress)
            return make_plan(runner) if replicas is None else make_inverse_plan(runner, replicas)
    except KeyboardInterrupt:
        click.echo(
            f"\ninterrupted: {len(ledger)} finished simulations are kept in {folder.path}; "
            "the same command goes on from there",
            err=True,
        )
        raise click.Abort from None
