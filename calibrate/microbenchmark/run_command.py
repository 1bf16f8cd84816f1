"""``capsim calibrate run``: measure a model's parts on this machine."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import click

from calibrate.microbenchmark.bench import Bench
from calibrate.microbenchmark.limits import limits_of
from calibrate.microbenchmark.machine import Condition, cpu_condition, gpu_condition
from calibrate.microbenchmark.options import plan_options, rank_of
from calibrate.microbenchmark.run import Run
from calibrate.microbenchmark.runner import ABOVE_CEILING, OUT_OF_MEMORY, Outcome, ceilings_of
from calibrate.microbenchmark.scatter import spread_of
from calibrate.options import json_option
from capsim.errors import BadInput, Fault
from capsim.units import format_bandwidth, format_compute


@click.command("run")
@plan_options
@click.option(
    "--device",
    required=True,
    type=click.Choice(["cuda", "cpu"]),
    help="What to measure on; a GPU is the first.",
)
@click.option(
    "--threads",
    type=click.IntRange(min=1),
    help="Of a CPU; where not given, one for each CPU that is there.",
)
@click.option("--force", is_flag=True, help="Measure although other processes use the GPU.")
@click.option(
    "--out",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="Raw file; one that is there already is continued.",
)
@json_option
def run_command(
    model: str,
    dtype: str,
    tp: int,
    minutes: float,
    device: str,
    threads: int | None,
    force: bool,
    out: Path,
    as_json: bool,
    **limits_asked: int,
) -> None:
    """Measure a decoder step's parts with random weights, and write every figure at once to a raw file.

    The same command continues a file that an interruption has left.

    \b
    Example:
      capsim calibrate run --model llama-3.1-8b --device cuda --minutes 6 --out raw.jsonl
    """  # noqa: D301 (click looks for the character, not for two)
    rank = rank_of(model, dtype, tp)
    # Before this process uses the GPU: whatever uses it now is another one.
    condition = gpu_condition() if device == "cuda" else cpu_condition()
    bench = open_bench(device, threads or os.cpu_count() or 1, rank.dtype)
    refuse_busy(device, condition, force)
    limits = limits_of(rank, bench.machine.memory, graphs=device == "cuda", **limits_asked)
    run = Run.of(bench, rank, model, limits, minutes, out)
    outcome = run.measure()
    answer = _answer(run, outcome)
    click.echo(json.dumps(answer, indent=2) if as_json else "\n".join(_text(answer)))
    for warning in answer["warnings"]:
        click.echo(f"warning: {warning}", err=True)


def open_bench(device: str, threads: int, dtype: str) -> Bench:
    """The device, with torch.

    Raises:
        BadInput: torch is not installed, there is no such device, or it does not compute in the dtype.
    """
    try:
        import torch  # noqa: F401 (whether it is there)
    except ImportError as error:
        raise BadInput(
            Fault("capsim calibrate run", "torch is not installed", "", "pip install 'capsim[calibrate]'")
        ) from error
    from calibrate.microbenchmark.torch_bench import TorchBench, check_dtype

    if device == "cuda":
        from calibrate.microbenchmark.cuda import CudaDevice

        bench = TorchBench(CudaDevice())
    else:
        from calibrate.microbenchmark.cpu import CpuDevice

        bench = TorchBench(CpuDevice(threads))
    check_dtype(bench.machine, dtype)
    return bench


def refuse_busy(device: str, condition: Condition, force: bool) -> None:
    """Refuse a GPU that others use, unless forced to; say it of a CPU.

    Raises:
        BadInput: naming who uses it, and what to do.
    """
    if not condition.busy:
        return
    if device == "cuda" and not force:
        todo = "an idle GPU: end them, choose another with CUDA_VISIBLE_DEVICES, or --force"
        raise BadInput(Fault("--device", condition.busy, device, todo))
    click.echo(f"warning: {condition.busy}: rows measured now will not repeat well", err=True)


def _answer(run: Run, outcome: Outcome) -> dict[str, Any]:
    rows = (*outcome.kept, *outcome.rows)
    ceilings = ceilings_of(rows, run.bench.machine.cache)
    memory, above = outcome.failed(OUT_OF_MEMORY), outcome.failed(ABOVE_CEILING)
    warnings = list(outcome.warnings)
    if run.bench.machine.device == "cuda" and not run.bench.machine.fused:
        warnings.append(
            "element-wise kernels could not be compiled together (is there a C compiler?): they are slower than an "
            "engine's"
        )
    if above:
        named = ", ".join(str(row.case) for row in above[:3])
        warnings.append(f"{len(above)} cases were faster than the ceilings allow: {named}; fit refuses them")
    return {
        "raw": str(run.out),
        "machine": run.bench.machine.members(),
        "density": run.plan.density.name,
        "cases": len(run.plan.cases()),
        "measured_now": len(outcome.rows),
        "measured_before": len(outcome.kept),
        "ceilings": {"copy": ceilings.bandwidth, **dict(ceilings.flops)},
        "spread": spread_of(rows),
        "out_of_memory": [str(row.case) for row in memory],
        "not_possible": sorted(
            {f"{row.case}: {row.failed}" for row in rows if row.failed} - _named((*memory, *above))
        ),
        "above_ceiling": [str(row.case) for row in above],
        "warnings": warnings,
    }


def _named(rows: tuple[Any, ...]) -> set[str]:
    return {f"{row.case}: {row.failed}" for row in rows}


def _text(answer: dict[str, Any]) -> list[str]:
    machine = answer["machine"]
    flops = {name: rate for name, rate in answer["ceilings"].items() if name != "copy"}
    rates = ", ".join(f"{name} products {format_compute(rate)}" for name, rate in flops.items())
    lines = [
        f"{answer['raw']}: {answer['cases']} cases, {answer['measured_now']} measured now and "
        f"{answer['measured_before']} before",
        f"  machine   {machine['name']}, torch {machine['torch']}",
        f"  ceilings  copy {format_bandwidth(answer['ceilings']['copy'])}, {rates}",
    ]
    if answer["spread"] is not None:
        lines.append(f"  spread    {100 * answer['spread']:.1f} % in the median of the rows")
    if answer["out_of_memory"]:
        lines.append(
            f"  out of memory ({len(answer['out_of_memory'])}): {', '.join(answer['out_of_memory'][:5])}"
        )
    lines += [f"  not measured: {each}" for each in answer["not_possible"]]
    return lines
