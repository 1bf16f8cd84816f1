"""``capsim calibrate plan``: which shapes, and how long, before any run."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable
from typing import Any

import click

from calibrate.columns import columns
from calibrate.microbenchmark import sample
from calibrate.microbenchmark.attention_axes import AttentionAxes
from calibrate.microbenchmark.case import ATTENTION, OPERATOR, STEP
from calibrate.microbenchmark.limits import limits_of
from calibrate.microbenchmark.options import plan_options, rank_of
from calibrate.microbenchmark.plan import Plan, plan_of
from calibrate.microbenchmark.rank import WIDE, Ceilings
from calibrate.options import json_option
from calibrate.stated import stated_gpu
from capsim.catalog import Gpu
from capsim.cost import Efficiency
from capsim.errors import BadInput, Fault
from capsim.units import format_duration

L2_CACHE = 64 << 20
"""Bytes; of present data-centre GPUs 40 to 126 MB. For the estimate only: a run reads it from the driver."""


@click.command("plan")
@plan_options
@click.option("--gpu", required=True, help="GPU of the catalog.")
@json_option
def plan_command(
    model: str,
    dtype: str,
    tp: int,
    minutes: float,
    gpu: str,
    as_json: bool,
    **limits_asked: int,
) -> None:
    """Say which shapes a run would measure, and about how long it takes by the GPU's data sheet.

    \b
    Example:
      capsim calibrate plan --model llama-3.1-8b --gpu h200 --minutes 5
    """  # noqa: D301 (click looks for the character, not for two)
    rank, data_sheet = rank_of(model, dtype, tp), stated_gpu(gpu)
    if rank.dtype not in data_sheet.dense_flops:
        what = f"{data_sheet.name} has no arithmetic of this dtype, by its data sheet"
        raise BadInput(Fault("--dtype", what, rank.dtype, WIDE))
    limits = limits_of(rank, data_sheet.memory, graphs=True, **limits_asked)
    ceilings = data_sheet_ceilings(data_sheet)
    plan = plan_of(rank, limits, ceilings, sample.CUDA, minutes)
    answer = _answer(plan, data_sheet, ceilings, minutes)
    click.echo(json.dumps(answer, indent=2) if as_json else "\n".join(_text(answer)))


def data_sheet_ceilings(gpu: Gpu) -> Ceilings:
    """What a GPU is seen to reach of its data sheet at best."""
    efficiency = Efficiency()
    flops = {dtype: efficiency.gemm_compute * rate for dtype, rate in gpu.dense_flops.items()}
    return Ceilings(efficiency.gemm_bandwidth * gpu.memory_bandwidth, flops, L2_CACHE)


def _answer(plan: Plan, gpu: Gpu, ceilings: Ceilings, minutes: float) -> dict[str, Any]:
    seconds = plan.seconds(ceilings, sample.CUDA)
    cases = plan.cases()
    axes = AttentionAxes.of(plan.limits, plan.density)
    counts: dict[str, int] = {}
    for case in cases:
        counts[case.kind] = counts.get(case.kind, 0) + 1
    products = sorted({case.count for case in cases if case.kind == OPERATOR and case.name == "qkv_proj"})
    return {
        "model": plan.rank.model.name,
        "gpu": gpu.name,
        "dtype": plan.rank.dtype,
        "tensor_parallel_size": plan.rank.ranks,
        "density": plan.density.name,
        "limits": plan.limits.members(),
        "shapes": {
            "tokens of a matrix product": products,
            "new tokens of a chunk": list(axes.new),
            "past of a chunk": list(axes.past),
            "decodes": list(axes.decodes),
            "context": list(axes.context),
            "chunk with decodes, new": list(axes.mixed[0]),
            "chunk with decodes, past": list(axes.mixed[1]),
            "chunk with decodes, decodes": list(axes.mixed[2]),
            "chunk with decodes, context": list(axes.mixed[3]),
            "captured graphs": list(plan.limits.graph_sizes),
        },
        "kept_from_the_fit": {
            "attention": sum(case.kind == ATTENTION and case.name == "held out" for case in cases),
            "whole steps": sum(
                case.kind == STEP and case.name == "random" and not case.round for case in cases
            ),
        },
        "cases": counts,
        "seconds": {"start": sample.CUDA.start, **seconds},
        "total": sample.CUDA.start + sum(seconds.values()),
        "minutes": minutes,
    }


def _text(answer: dict[str, Any]) -> list[str]:
    limits = answer["limits"]
    lines = _too_long_lines(answer)
    lines += [
        f"{answer['model']}, {answer['dtype']}, on {answer['tensor_parallel_size']} x {answer['gpu']}: "
        f"{sum(answer['cases'].values()):,} cases, {answer['density']} tables",
        f"  {limits['kv_tokens']:,} tokens of KV fit beside the weights; no batch has more",
        f"  {limits['layers']} layers are measured as a whole",
        "shapes",
    ]
    for name, counts in answer["shapes"].items():
        lines += textwrap.wrap(
            f"{name + ':':<29}{_list(counts)}", 100, initial_indent="  ", subsequent_indent=" " * 31
        )
    kept = ", ".join(f"{count} of {name}" for name, count in answer["kept_from_the_fit"].items())
    lines += [f"kept from the fit, to test it: {kept}", "estimated time"]
    rows = [
        (kind, f"{answer['cases'].get(kind, 0):,}", format_duration(seconds, 2))
        for kind, seconds in answer["seconds"].items()
    ]
    rows.append(("total", f"{sum(answer['cases'].values()):,}", format_duration(answer["total"], 2)))
    return lines + columns(("kind", "cases", "time"), "lrr", rows)


def _too_long_lines(answer: dict[str, Any]) -> list[str]:
    if answer["total"] <= 60 * answer["minutes"]:
        return []
    return [
        f"takes about {format_duration(answer['total'], 2)}, more than {answer['minutes']:g} minutes: no sparser "
        "tables are known; a run can be continued"
    ]


def _list(counts: Iterable[int]) -> str:
    return ", ".join(f"{count:,}" for count in counts) or "none"
