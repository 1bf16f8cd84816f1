from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from capsim.cli.folder import RunFolder, json_text
from capsim.cli.options import read_scenario, scenario_options
from capsim.cli.progress import Watch
from capsim.cli.report import infeasible_kept, keep
from capsim.errors import BadInput, Fault
from capsim.plan.course import course_result
from capsim.plan.deployment import deploy
from capsim.plan.run_result import run_result
from capsim.plan.simulation import Simulation, run_simulation
from capsim.report.export import FORMATS
from capsim.report.export.parquet import require_pyarrow
from capsim.report.export.simulated_run import simulated_run
from capsim.report.requests import write_requests
from capsim.report.text import run_text
from capsim.scenario import Scenario, resolved
from capsim.units import UnitError, parse_rate


@click.command()
@scenario_options
@click.option("--rate", help="Open loop at this rate, e.g. 20/s; the scenario's target by default.")
@click.option("--concurrency", type=click.IntRange(min=1), help="Closed loop with so many clients instead.")
@click.option("--trace", "recorded", is_flag=True, help="Replay the trace at its own times instead.")
@click.option("--replicas", type=click.IntRange(min=1), help="Size of the fleet; the scenario's by default.")
@click.option(
    "--requests", type=click.IntRange(min=1), help="How many requests; the scenario's duration by default."
)
@click.option(
    "--export",
    "formats",
    multiple=True,
    type=click.Choice(list(FORMATS)),
    help="Write the run in this format too, into the folder of --out. May be repeated.",
)
def run(
    scenario_file: Path,
    overrides: tuple[str, ...],
    seed: int | None,
    as_json: bool,
    rate: str | None,
    concurrency: int | None,
    recorded: bool,
    replicas: int | None,
    requests: int | None,
    formats: tuple[str, ...],
    out: Path | None,
    jobs: int,  # noqa: ARG001  # one simulation has no work to share
) -> None:
    """Simulate a fleet once: at a rate, at a concurrency, or the trace as it is.

    With --out it leaves a run folder: a page for people (report.html), result.json, the resolved scenario, the requests
    and the course of the run.

    \b
    Examples:
      capsim run configs/scenarios/chat-llama-3.1-8b-h200.yaml --rate 10/s
      capsim run configs/scenarios/chat-llama-3.1-8b-h200.yaml --concurrency 32
      capsim run configs/scenarios/chat-llama-3.1-8b-h200.yaml --trace --replicas 2
      capsim run configs/scenarios/chat-llama-3.1-8b-h200.yaml --rate 10/s --out run --export vllm-bench
    """
    if (rate is not None) + (concurrency is not None) + recorded > 1:
        raise click.UsageError("--rate, --concurrency and --trace exclude one another")
    if recorded and requests is not None:
        raise click.UsageError("--requests does not go with --trace: the trace has its own")
    if formats and out is None:
        raise click.UsageError("--export needs --out, the folder that it writes to")
    changes = overrides if replicas is None else (*overrides, f"fleet.replicas={replicas}")
    scenario = read_scenario(scenario_file, changes, seed)
    _refuse_exports(formats, scenario)
    offered = None if rate is None else _requests_per_second(rate)
    folder = None if out is None else RunFolder(out)
    with infeasible_kept(out, scenario), Watch() as progress:
        simulation = run_simulation(
            deploy(scenario),
            rate=offered,
            concurrency=concurrency,
            recorded=recorded,
            requests=requests,
            progress=progress,
        )
    result = run_result(simulation)
    if folder is not None:
        folder.write("scenario.json", resolved(scenario))
        write_requests(simulation.log, folder.path / "requests.csv")
        course = course_result(
            simulation.deployment, simulation.experiment, simulation.log, simulation.sample
        )
        keep(folder, result, course)
    click.echo(json_text(result) if as_json else run_text(result))
    if folder is not None:
        for path in _export(simulation, formats, folder.path):
            click.echo(f"exported: {path}", err=as_json)


def _refuse_exports(formats: tuple[str, ...], scenario: Scenario) -> None:
    """Refuse before the simulation what could not be written after it."""
    if "parquet" in formats:
        require_pyarrow()
    samples = scenario.demand.samples
    if formats and samples > 1:
        raise BadInput(
            Fault(
                "--export",
                f"each request generates {samples} sequences, and the formats have room for one",
                expected="a demand with one sequence a request",
            )
        )


def _export(simulation: Simulation, formats: tuple[str, ...], folder: Path) -> Iterator[Path]:
    """Write each format once and yield where."""
    if not formats:
        return
    simulated = simulated_run(simulation)
    for name in dict.fromkeys(formats):
        path = folder / FORMATS[name].FILE
        FORMATS[name].write(simulated, path)
        yield path


def _requests_per_second(text: str) -> float:
    try:
        rate = parse_rate(text)
    except UnitError as error:
        raise BadInput(Fault("--rate", error.what, expected=error.expected)) from error
    if rate.unit != "requests":
        raise BadInput(Fault("--rate", f"{text!r} counts tokens", expected="requests per second, e.g. 20/s"))
    if not rate.per_second > 0:
        raise BadInput(Fault("--rate", f"{text} offers nothing", expected="a rate above 0, e.g. 20/s"))
    return rate.per_second
