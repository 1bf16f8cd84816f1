"""``capsim calibrate``: bring measured step costs in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from calibrate.check import check
from calibrate.composed import Composed, composed_steps
from calibrate.draft import GRIDS, Draft
from calibrate.engine.command import engine, replay
from calibrate.guard import refuse_wrong_unit
from calibrate.importers import IMPORTERS, SCALING, ImportRequest, importer
from calibrate.memory.command import memory
from calibrate.microbenchmark.fit_command import fit_command
from calibrate.microbenchmark.plan_command import plan_command
from calibrate.microbenchmark.run_command import run_command
from calibrate.options import json_option
from calibrate.show import show
from calibrate.stated import check_ranks, stated_model, stated_values
from capsim import units
from capsim.catalog import Gpu, Model, load_gpu
from capsim.cost import Profile
from capsim.errors import BadInput, Fault


@click.group()
def calibrate() -> None:
    """Measured step costs: measure them here, bring them in from others, show them, and compare them.

    \b
    Example:
      capsim calibrate import --from llmservingsim tests/calibrate/samples/llmservingsim --model llama-3.1-8b \\
        --gpu rtx-4090 --out profile.json
    """  # noqa: D301 (click looks for the character, not for two)


calibrate.add_command(show)
calibrate.add_command(check)
calibrate.add_command(plan_command)
calibrate.add_command(run_command)
calibrate.add_command(fit_command)
calibrate.add_command(engine)
calibrate.add_command(memory)
calibrate.add_command(replay)


def _sources() -> str:
    lines = "\n".join(f"  {name:<20}{what}" for name, what in IMPORTERS.items())
    return f"\b\nSources:\n{lines}"


@calibrate.command("import", epilog=_sources())
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--from", "source", required=True, metavar="NAME", help="Kind of source; see below.")
@click.option("--model", required=True, help="Model of the catalog whose step costs these are.")
@click.option("--gpu", help="GPU of the catalog; where not given, the one that the source names.")
@click.option(
    "--scale-to",
    metavar="GPU",
    help="Carry the times over to this GPU, which differs from --gpu in its memory alone.",
)
@click.option("--dtype", default="bfloat16", show_default=True, help="Of the weights.")
@click.option("--kv-dtype", default="bfloat16", show_default=True, help="Of the KV cache.")
@click.option("--tp", type=click.IntRange(min=1), default=1, show_default=True, help="Tensor-parallel ranks.")
@click.option("--engine", help="Engine; where not given, the one that the source names.")
@click.option("--engine-version", help="Its version; the source must not name another.")
@click.option(
    "--host-overhead", help="CPU time of each step that the GPU waits for, e.g. 1ms; for sources without it."
)
@click.option(
    "--option", "options", multiple=True, metavar="NAME=VALUE", help="What only this source understands."
)
@click.option(
    "--out", required=True, type=click.Path(path_type=Path, dir_okay=False), help="The profile to write."
)
@json_option
def import_(
    path: Path,
    source: str,
    model: str,
    gpu: str | None,
    scale_to: str | None,
    dtype: str,
    kv_dtype: str,
    tp: int,
    engine: str | None,
    engine_version: str | None,
    host_overhead: str | None,
    options: tuple[str, ...],
    out: Path,
    as_json: bool,
) -> None:
    """Read measurements and write them as a profile.

    \b
    Example:
      capsim calibrate import --from llmservingsim tests/calibrate/samples/llmservingsim --model llama-3.1-8b \\
        --gpu rtx-4090 --host-overhead 1ms --out profile.json
    """  # noqa: D301 (click looks for the character, not for two)
    if scale_to is not None and source not in SCALING:
        what = f"{source} is read as it was measured"
        raise BadInput(Fault("--scale-to", what, "", f"--from {' or '.join(SCALING)}"))
    shapes = stated_model(model)
    check_ranks(shapes, tp)
    request = ImportRequest(
        model=shapes,
        gpu=gpu,
        dtype=dtype,
        kv_dtype=kv_dtype,
        tensor_parallel_size=tp,
        engine=engine,
        engine_version=engine_version,
        host_overhead=None if host_overhead is None else _duration(host_overhead),
        scale_to=scale_to,
        options=stated_values("--option", options),
    )
    draft = importer(source)(path, request)
    data_sheet = _data_sheet(draft.provenance.gpu)
    if data_sheet is not None:
        refuse_wrong_unit(draft.profile(), request.model, data_sheet, str(path))
    profile = draft.write(out)
    answer = _answer(draft, profile, request.model, data_sheet, out)
    click.echo(json.dumps(answer, indent=2, ensure_ascii=False) if as_json else _text(answer))
    if data_sheet is None:
        what = "is not in the catalog: nothing checks these times against a data sheet"
        click.echo(f"warning: {draft.provenance.gpu} {what}", err=True)


def _duration(text: str) -> float:
    try:
        return units.parse_duration(text)
    except units.UnitError as error:
        raise BadInput(Fault("--host-overhead", error.what, "", error.expected, error.suggestion)) from error


def _data_sheet(name: str) -> Gpu | None:
    try:
        return load_gpu(name)
    except BadInput:  # a GPU that the catalog does not hold has no data sheet to check against
        return None


def _answer(draft: Draft, profile: Profile, model: Model, gpu: Gpu | None, out: Path) -> dict[str, Any]:
    """What the command prints: what was read, what was filled, and whole steps; durations in seconds."""
    stated = draft.provenance
    grids = {name: getattr(draft.attention, name) for name in GRIDS}
    return {
        "profile": str(out),
        "gpu": f"{stated.tensor_parallel_size} x {stated.gpu} ({_source_gpu(draft)})",
        "derived_from": stated.derived_from or None,
        "engine": f"{stated.engine} {stated.engine_version}",
        "model": f"{stated.model.name}, {stated.dtype} weights, {stated.kv_dtype} KV",
        "measured": f"{stated.date}, by {stated.measured_by} ({stated.licence})",
        "files": [file.name for file in stated.files],
        "operators": [
            {
                "name": each.name,
                "per": each.per,
                "times": each.times,
                "tag": each.tag,
                "points": len(each.curve.counts),
            }
            for each in draft.operators
        ],
        "attention": {
            name: {"tag": grid.tag, "points": int(grid.values.size)}
            for name, grid in grids.items()
            if grid is not None
        },
        "host": {"tag": draft.host_tag, "seconds": draft.host},
        "ranges": {name: list(ends) for name, ends in draft.ranges.items()},
        "held_out": [vars(case) for case in draft.held_out],
        "notes": list(stated.notes),
        "steps": [_step(each) for each in composed_steps(profile, model, gpu)],
    }


def _source_gpu(draft: Draft) -> str:
    stated = draft.provenance
    return f"derived from {stated.gpu_name}" if stated.derived_from else stated.gpu_name


def _step(step: Composed) -> dict[str, Any]:
    return {"name": step.name, "seconds": step.seconds, "roofline": step.roofline, "outside": step.outside}


def _text(answer: dict[str, Any]) -> str:
    lines = [f"{answer['profile']}: written"]
    lines += [f"  {name:<10}{answer[name]}" for name in ("gpu", "engine", "model", "measured")]
    lines.append(f"  {'files':<10}{', '.join(answer['files'])}")
    tables = [f"{each['name']} ({each['tag']}, {each['points']})" for each in answer["operators"]]
    tables += [
        f"{name} attention ({grid['tag']}, {grid['points']})" for name, grid in answer["attention"].items()
    ]
    lines.append("tables (how known, points)")
    lines += [f"  {table}" for table in tables]
    lines.append("measured from, to")
    lines += [f"  {name:<12}{low:>8,}{high:>10,}" for name, (low, high) in answer["ranges"].items()]
    lines.append("filled and smoothed")
    lines += [f"  {note}" for note in answer["notes"]]
    if answer["held_out"]:
        lines.append(
            "errors on shapes that the tables do not hold (cases, median, 90th percentile, mean signed)"
        )
        lines += [_held_out_line(case) for case in answer["held_out"]]
    lines.append("composed steps (tables, data-sheet roofline without the host)")
    lines += [_step_line(step) for step in answer["steps"]]
    return "\n".join(lines)


def _held_out_line(case: dict[str, Any]) -> str:
    errors = "".join(f"{100 * case[name]:>8.1f} %" for name in ("median", "p90", "bias"))
    return f"  {case['regime'] + ', ' + case['size']:<18}{case['cases']:>7,}{errors}"


def _step_line(step: dict[str, Any]) -> str:
    roofline = "-" if step["roofline"] is None else units.format_duration(step["roofline"])
    outside = "  outside the measured range" if step["outside"] else ""
    return f"  {step['name']:<26}{units.format_duration(step['seconds']):>10}{roofline:>10}{outside}"
