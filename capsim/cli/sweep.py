from __future__ import annotations

from pathlib import Path

import click

from capsim.cli.folder import RunFolder, json_text
from capsim.cli.options import read_scenario, scenario_options
from capsim.cli.progress import Watch
from capsim.cli.report import SWEEP, draw
from capsim.plan.ledger import Ledger
from capsim.plan.sweep import make_sweep
from capsim.plan.sweep_axis import parse_axes
from capsim.plan.sweep_result import sweep_result
from capsim.report.sweep import sweep_text
from capsim.scenario import Scenario, resolved


@click.command()
@scenario_options
@click.option(
    "--over",
    "overs",
    multiple=True,
    required=True,
    metavar="NAME=VALUES",
    help="What to change: rate, concurrency or a key of the scenario, and its values, as a list or as "
    "FROM..TO:COUNT. Repeated: each value with each of the others.",
)
def sweep(
    scenario_file: Path,
    overrides: tuple[str, ...],
    seed: int | None,
    as_json: bool,
    out: Path | None,
    jobs: int,
    overs: tuple[str, ...],
) -> None:
    """Judge the scenario's own fleet at many rates, numbers of clients or settings.

    With --out the answer is left as sweep.json and as a figure, sweep.png, and every finished simulation is kept:
    interrupted, the same command goes on from there; with more values it simulates only those.

    \b
    Examples:
      capsim sweep configs/starters/chat.yaml --over rate=2..20/s:10 --out runs/rates
      capsim sweep configs/starters/chat.yaml --over engine.max_num_seqs=64,128,256 --set demand.target=15/s
      capsim sweep configs/starters/chat.yaml --over concurrency=1,8,64 --over engine.dtype=bfloat16 --seed 7
    """
    axes = parse_axes(overs)

    def read(changes: tuple[str, ...]) -> Scenario:
        return read_scenario(scenario_file, (*overrides, *changes), seed)

    folder = None if out is None else RunFolder(out)
    ledger = Ledger(None if folder is None else folder.path / "experiments.jsonl")
    try:
        with Watch() as progress:
            answer = make_sweep(read, axes, jobs=jobs, ledger=ledger, progress=progress)
    except KeyboardInterrupt:
        kept = f"{len(ledger)} finished simulations are kept in {out}; the same command goes on from there"
        click.echo(f"\ninterrupted: {'nothing is kept without --out' if out is None else kept}", err=True)
        raise click.Abort from None
    result, written = sweep_result(answer), ""
    if folder is not None:
        folder.write("scenario.json", resolved(answer.scenario))
        folder.write(SWEEP, result)
        written = f"; written to {folder.path}: {', '.join([SWEEP, *draw(result, folder.path)])}"
    click.echo(json_text(result) if as_json else sweep_text(result))
    made = f"{answer.performed} simulation{'' if answer.performed == 1 else 's'} made"
    click.echo(f"{made}{written}", err=True)
