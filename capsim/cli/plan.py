from __future__ import annotations

from pathlib import Path

import click

from capsim.cli.folder import RunFolder, json_text
from capsim.cli.options import read_scenario, scenario_options
from capsim.cli.progress import Watch
from capsim.plan.deployment import deploy
from capsim.plan.experiment import record
from capsim.plan.ledger import Ledger
from capsim.plan.planner import make_plan, representative
from capsim.plan.result import plan_result
from capsim.report.requests import write_requests
from capsim.report.text import plan_text
from capsim.scenario import resolved


@click.command()
@scenario_options
def plan(
    scenario_file: Path,
    overrides: tuple[str, ...],
    seed: int | None,
    as_json: bool,
    out: Path | None,
    jobs: int,
) -> None:
    """How many replicas serve the demand inside every objective, with reserve and a replica missing?

    Writes a run folder (runs/NAME by default): the resolved scenario, result.json, the requests of one run of the
    chosen fleet, knee.png. Interrupted, it keeps what is done; the same command goes on from there.

    \b
    Examples:
      capsim plan configs/scenarios/chat-llama-3.1-8b-h200.yaml
      capsim plan configs/scenarios/chat-llama-3.1-8b-h200.yaml --set demand.target=200/s --out runs/peak
    """
    scenario = read_scenario(scenario_file, overrides, seed)
    deployment = deploy(scenario)
    folder = RunFolder(out or Path("runs") / scenario.name)
    folder.write("scenario.json", resolved(scenario))
    ledger = Ledger(folder.path / "experiments.jsonl")
    try:
        with Watch() as progress:
            answer = make_plan(deployment, jobs=jobs, ledger=ledger, progress=progress)
    except KeyboardInterrupt:
        click.echo(
            f"\ninterrupted: {len(ledger)} finished simulations are kept in {folder.path}; "
            "the same command goes on from there",
            err=True,
        )
        raise click.Abort from None
    result = plan_result(answer)
    folder.write("result.json", result)
    write_requests(record(deployment, representative(answer)), folder.path / "requests.csv")
    from capsim.report.figure import knee_figure  # matplotlib is slow to import: only where a figure is drawn

    knee_figure(result, folder.path / "knee.png")
    click.echo(json_text(result) if as_json else plan_text(result))
    click.echo(f"written to {folder.path}: result.json, scenario.json, requests.csv, knee.png", err=True)
