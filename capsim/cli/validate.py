from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

import click

from capsim.benchmark.reader import read_benchmark
from capsim.benchmark.record import BenchmarkRun
from capsim.cli.folder import RunFolder, json_text
from capsim.cli.options import json_option, override_option, read_scenario, seed_option
from capsim.cli.progress import Watch
from capsim.errors import BadInput, Fault
from capsim.plan.deployment import deploy
from capsim.plan.error_budget import parse_budget
from capsim.plan.validation import validate as compare
from capsim.plan.validation_result import validation_result
from capsim.report.validation import validation_text

NOT_INSIDE = 3
"""Exit code of a budget that is missed: the question was answered, with no."""

Read = TypeVar("Read")


@click.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--scenario",
    "scenario_file",
    metavar="SCENARIO",
    required=True,
    type=click.Path(path_type=Path),
    help="The service that was measured; its demand is not used.",
)
@click.option(
    "--fit",
    type=click.Choice(["overhead"]),
    help="Fit the host's overhead in a step and the gateway's latency, and judge on the other runs.",
)
@click.option("--fit-on", metavar="RUN", help="Label or file to fit on; needed with --fit.")
@click.option(
    "--budget",
    metavar="METRIC=SHARE,...",
    help="Largest errors, e.g. ttft=10%,tpot=5%, of mean, p50 and p95; exit code 3 if one is missed.",
)
@override_option
@seed_option
@json_option
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for validation.json and overlay.png; made if need be.",
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Processes for simulations; the answer does not depend on it.",
)
def validate(
    files: tuple[Path, ...],
    scenario_file: Path,
    fit: str | None,
    fit_on: str | None,
    budget: str | None,
    overrides: tuple[str, ...],
    seed: int | None,
    as_json: bool,
    out: Path | None,
    jobs: int,
) -> None:
    """Would the simulator have predicted what a benchmark measured?

    Simulates each run of the files (or of the files of a folder) with its own arrivals and lengths on the scenario's
    fleet, and prints the error of each of the benchmark's metrics.

    \b
    Examples:
      capsim validate configs/benchmarks/vllm-cpu --scenario configs/benchmarks/tinyllama-cpu.yaml
      capsim validate configs/benchmarks/vllm-cpu --scenario configs/benchmarks/tinyllama-cpu.yaml --budget ttft=20%
    """
    if (fit is None) != (fit_on is None):
        raise click.UsageError("--fit and --fit-on are given together")
    faults: list[Fault | str] = []
    scenario = _read(partial(read_scenario, scenario_file, overrides, seed), faults)
    largest = None if budget is None else _read(partial(parse_budget, budget), faults)
    runs: list[BenchmarkRun] = []
    for file in files:
        runs += _read(partial(read_benchmark, file), faults) or []
    if faults or scenario is None:
        raise BadInput(*faults)
    folder = None if out is None else RunFolder(out)
    with Watch() as progress:
        validation = compare(
            deploy(scenario), runs, fit_on=fit_on, budget=largest, jobs=jobs, progress=progress
        )
    result = validation_result(validation)
    if folder is not None:
        folder.write("validation.json", result)
        from capsim.report.validation_figure import overlay_figure  # matplotlib is slow to import

        overlay_figure(result, folder.path / "overlay.png")
    click.echo(json_text(result) if as_json else validation_text(result), nl=as_json)
    if validation.inside is False:
        click.echo("capsim: not inside the budget\n" + "\n".join(result["misses"]), err=True)
        raise SystemExit(NOT_INSIDE)


def _read(read: Callable[[], Read], faults: list[Fault | str]) -> Read | None:
    """What is read, None where its faults were added to the others."""
    try:
        return read()
    except BadInput as error:
        faults += error.faults
        return None
