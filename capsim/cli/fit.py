from __future__ import annotations

from pathlib import Path

import click

from capsim.cli.folder import RunFolder, json_text
from capsim.cli.options import read_scenario, scenario_options
from capsim.memory.startup_log import read_startup_log
from capsim.plan.deployment import fitted
from capsim.plan.fit_result import fit_result
from capsim.plan.startup import fitted_as_logged
from capsim.report.text import fit_text


@click.command()
@scenario_options
@click.option(
    "--log",
    "log_file",
    type=click.Path(path_type=Path),
    help="Start-up log of vLLM with these settings: its figures replace the memory model's.",
)
def fit(
    scenario_file: Path,
    overrides: tuple[str, ...],
    seed: int | None,
    as_json: bool,
    out: Path | None,
    jobs: int,  # noqa: ARG001 - every command takes it; there is nothing to simulate here
    log_file: Path | None,
) -> None:
    """Does the model fit, how many KV blocks remain, how many sequences do they hold, and why not more?

    With --out the answer is left as result.json and as a figure, memory.png.

    \b
    Examples:
      capsim fit configs/scenarios/chat-llama-3.1-8b-h200.yaml --set engine.tensor_parallel_size=2
      capsim fit configs/scenarios/chat-llama-3.1-8b-h200.yaml --log vllm.log
    """
    scenario = read_scenario(scenario_file, overrides, seed)
    log = None if log_file is None else read_startup_log(log_file)
    result = fit_result(fitted(scenario) if log is None else fitted_as_logged(scenario, log), log)
    if out is not None:
        folder = RunFolder(out)
        folder.write("result.json", result)
        from capsim.report.memory_figure import memory_figure  # matplotlib is slow to import

        memory_figure(result, folder.path / "memory.png")
    click.echo(json_text(result) if as_json else fit_text(result))
