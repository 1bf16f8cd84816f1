from __future__ import annotations

from pathlib import Path

import click

from capsim.cli.folder import RunFolder, json_text
from capsim.cli.options import read_scenario, scenario_options
from capsim.plan.deployment import deploy
from capsim.plan.result import fit_result
from capsim.report.text import fit_text


@click.command()
@scenario_options
def fit(
    scenario_file: Path,
    overrides: tuple[str, ...],
    seed: int | None,
    as_json: bool,
    out: Path | None,
    jobs: int,  # noqa: ARG001 - every command takes it; there is nothing to simulate here
) -> None:
    """Does the model fit, how many KV blocks remain, and how many sequences do they hold?

    \b
    Example:
      capsim fit configs/scenarios/chat-llama-3.1-8b-h200.yaml --set engine.tensor_parallel_size=2
    """
    result = fit_result(deploy(read_scenario(scenario_file, overrides, seed)))
    if out is not None:
        RunFolder(out).write("result.json", result)
    click.echo(json_text(result) if as_json else fit_text(result))
