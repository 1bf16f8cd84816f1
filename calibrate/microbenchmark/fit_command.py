"""``capsim calibrate fit``: a profile of a raw file, of an engine's steps, or of both."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from calibrate.columns import columns, milliseconds, percent, sentences
from calibrate.engine_steps import EngineSteps, read
from calibrate.guard import refuse_wrong_unit
from calibrate.importers import ImportRequest, importer
from calibrate.microbenchmark.engine_host import Host, host_of
from calibrate.microbenchmark.evidence import Alone
from calibrate.microbenchmark.fit import Fitted, Stated, fit
from calibrate.microbenchmark.machine import Machine
from calibrate.microbenchmark.raw_file import Raw, read_raw
from calibrate.options import json_option
from calibrate.stated import check_ranks, stated_gpu, stated_model
from capsim import units
from capsim.catalog import Gpu, Model, load_gpu, load_model
from capsim.catalog.loader import is_path, known_gpu
from capsim.cost import Efficiency
from capsim.cost.profile_tables import HeldOut
from capsim.errors import BadInput, Fault
from capsim.units import format_duration, format_size


@click.command("fit")
@click.argument("raw_file", metavar="[RAW]", required=False, type=click.Path(path_type=Path))
@click.option(
    "--engine-steps",
    type=click.Path(path_type=Path),
    help="Steps that a real engine logged: what they take beyond the kernels is the host.",
)
@click.option("--model", help="Model of the steps, or of a raw file whose YAML file has moved.")
@click.option("--gpu", help="GPU of the catalog; where not given, the one that the raw file names.")
@click.option("--dtype", default="bfloat16", show_default=True, help="Of the weights, for steps alone.")
@click.option(
    "--tp", default=1, show_default=True, type=click.IntRange(min=1), help="Ranks, for steps alone."
)
@click.option(
    "--host-overhead", help="CPU time of each step that the GPU waits for, e.g. 1ms, where no steps tell it."
)
@click.option("--measured-by", default="the user", show_default=True, help="Who measured.")
@click.option(
    "--licence", default="not stated", show_default=True, help="Under which the figures may be used."
)
@click.option(
    "--out", required=True, type=click.Path(path_type=Path, dir_okay=False), help="The profile to write."
)
@json_option
def fit_command(
    raw_file: Path | None,
    engine_steps: Path | None,
    model: str | None,
    gpu: str | None,
    dtype: str,
    tp: int,
    host_overhead: str | None,
    measured_by: str,
    licence: str,
    out: Path,
    as_json: bool,
) -> None:
    """Make a profile of what was measured, and say how well it predicts what it has not seen.

    \b
    Example:
      capsim calibrate fit raw.jsonl --out profile.json
    """  # noqa: D301 (click looks for the character, not for two)
    if raw_file is None:
        answer = _from_steps(engine_steps, model, gpu, dtype, tp, out)
    else:
        raw = read_raw(raw_file)
        steps = None if engine_steps is None else read(engine_steps)
        stated = _stated(raw, gpu, host_overhead, measured_by, licence)
        shapes = load_model(raw.head.model) if model is None else stated_model(model)
        answer = _from_raw(raw, shapes, stated, steps, host_overhead, out)
    click.echo(json.dumps(answer, indent=2) if as_json else "\n".join(_text(answer)))
    for warning in answer["warnings"]:
        click.echo(f"warning: {warning}", err=True)


def _from_raw(
    raw: Raw,
    model: Model,
    stated: Stated,
    steps: EngineSteps | None,
    host_overhead: str | None,
    out: Path,
) -> dict[str, Any]:
    if steps is not None and host_overhead is not None:
        raise BadInput(Fault("--host-overhead", "the engine's steps tell it", "", "one of both"))
    fitted = fit(raw, model, stated)
    host = None
    if steps is not None:
        host = host_of(fitted.draft, steps)
        fitted = fit(raw, model, host.stated(stated))
    if stated.gpu is not None:
        refuse_wrong_unit(fitted.draft.profile(), model, stated.gpu, raw.source)
    fitted.draft.write(out)
    return _answer(fitted, host, out)


def _from_steps(
    engine_steps: Path | None, model: str | None, gpu: str | None, dtype: str, tp: int, out: Path
) -> dict[str, Any]:
    """A profile of whole steps alone, as ``capsim calibrate import --from engine-steps`` makes it."""
    if engine_steps is None or model is None:
        what = "nothing to fit" if engine_steps is None else "steps alone do not say of which model they are"
        expected = "a raw file, or --engine-steps with --model and --gpu"
        raise BadInput(Fault("capsim calibrate fit", what, "", expected))
    shapes = stated_model(model)
    check_ranks(shapes, tp)
    request = ImportRequest(shapes, gpu=gpu, dtype=dtype, tensor_parallel_size=tp)
    draft = importer("engine-steps")(engine_steps, request)
    draft.write(out)
    return {
        "profile": str(out),
        "steps": _errors(draft.held_out),
        "host": {"tag": draft.host_tag, "seconds": draft.host},
        "notes": list(draft.provenance.notes),
        "warnings": [],
    }


def _stated(raw: Raw, gpu: str | None, host_overhead: str | None, measured_by: str, licence: str) -> Stated:
    machine = raw.head.machine
    if host_overhead is not None:
        host, note = _duration(host_overhead), "The CPU's part of a step is what the user stated."
    elif machine.device == "cpu":
        host, note = (
            0.0,
            "An engine's own part of a step (scheduling, sampling parameters) was not measured: assumed 0.",
        )
    else:
        host = Efficiency().host_overhead
        note = f"The CPU's part of a step was not measured: assumed to be {1e3 * host:g} ms in every step."
    return Stated(measured_by, licence, _data_sheet(gpu, machine, raw.source), host, "assumed", note)


def _data_sheet(stated: str | None, machine: Machine, source: str) -> Gpu | None:
    """What the user names must be in the catalog, or a file; what the driver names may be there, and then decides."""
    named = known_gpu(machine.name)
    if stated is None:
        return load_gpu(named) if named else None
    gpu = stated_gpu(stated)
    known = known_gpu("cpu") if machine.device == "cpu" else named
    if known and gpu.name != known and not is_path(stated):
        found = f"a CPU, {machine.name}" if machine.device == "cpu" else machine.name
        raise BadInput(Fault("--gpu", f"{source} was measured on {found}", gpu.name, known))
    return gpu


def _duration(text: str) -> float:
    try:
        return units.parse_duration(text)
    except units.UnitError as error:
        raise BadInput(Fault("--host-overhead", error.what, "", error.expected, error.suggestion)) from error


def _answer(fitted: Fitted, host: Host | None, out: Path) -> dict[str, Any]:
    draft = fitted.draft
    return {
        "profile": str(out),
        "layers_measured_whole": fitted.layers,
        "operators": [
            {"name": each.name, "per": each.per, "times": each.times, "tag": each.tag}
            for each in draft.operators
        ],
        "ranges": {name: list(ends) for name, ends in draft.ranges.items()},
        "steps": _errors(fitted.steps),
        "scaled": _errors(fitted.scaled),
        "attention": _errors(fitted.attention),
        "repeats": [vars(each) for each in fitted.repeats],
        "host": {
            "tag": draft.host_tag,
            "seconds": draft.host,
            "engine_steps": None if host is None else vars(host),
        },
        "graphs": {str(count): list(pair) for count, pair in fitted.graphs.items()},
        "memory": dict(fitted.memory),
        "alone": None if fitted.alone is None else vars(fitted.alone),
        "failures": dict(fitted.failures),
        "notes": list(draft.provenance.notes),
        "warnings": list(fitted.warnings),
    }


def _errors(cases: tuple[HeldOut, ...]) -> list[dict[str, Any]]:
    return [vars(case) for case in cases]


def _text(answer: dict[str, Any]) -> list[str]:
    lines = [f"{answer['profile']}: written"]
    titles = {
        "steps": "whole steps of random batches, which the fit has not seen",
        "scaled": "the plain sum of operators times layers, without the gaps, at shapes of the tables",
        "attention": "attention at shapes that the tables lack",
    }
    spreads = {each["regime"]: each for each in answer.get("repeats", [])}
    for name, title in titles.items():
        if answer.get(name):
            lines += ["", title, *_error_lines(answer[name], spreads if name == "steps" else {})]
    lines += ["", *_host_lines(answer["host"])]
    lines += _graph_lines(answer.get("graphs", {}))
    lines += _memory_lines(answer.get("memory", {}))
    if answer.get("alone"):
        lines += _alone_lines(Alone(**answer["alone"]))
    lines += [
        f"{count} {'case' if count == 1 else 'cases'}: {why}"
        for why, count in answer.get("failures", {}).items()
    ]
    return [*lines, "", "how the tables were made", *sentences(answer["notes"])]


def _error_lines(cases: list[dict[str, Any]], spreads: dict[str, dict[str, Any]]) -> list[str]:
    """Errors by regime; beside them how well the measurement agrees with itself."""
    rows = []
    for case in cases:
        row = [f"{case['regime']}, {case['size']}", f"{case['cases']}"]
        row += [f"{100 * case['median']:.1f} %", f"{100 * case['p90']:.1f} %", percent(case["bias"])]
        if spreads:
            spread = spreads[case["regime"]]
            again = spread["again"]
            row += [f"{100 * spread['spread']:.1f} %", "-" if again is None else f"{100 * again:.1f} %"]
        rows.append(row)
    header = ["steps", "cases", "median", "90th", "mean"]
    header += ["of repeats", "measured again"] if spreads else []
    return columns(header, "l" + "r" * (len(header) - 1), rows)


def _host_lines(host: dict[str, Any]) -> list[str]:
    lines = [f"host: {format_duration(host['seconds'])} a step, {host['tag']}"]
    found = host.get("engine_steps")
    if found:
        lines.append(
            f"  the engine's steps less the tables, over {found['steps']} steps: median "
            f"{milliseconds(found['seconds'])} ms, middle half {milliseconds(found['low'])} to "
            f"{milliseconds(found['high'])} ms"
        )
    return lines


def _graph_lines(graphs: dict[str, list[float]]) -> list[str]:
    if not graphs:
        return []
    rows = [
        (count, milliseconds(graph), milliseconds(eager), milliseconds(eager - graph))
        for count, (graph, eager) in graphs.items()
    ]
    title = "decode steps with CUDA graphs and without, ms"
    return ["", title, *columns(("decodes", "graph", "eager", "launches"), "rrrr", rows)]


def _memory_lines(memory: dict[str, int]) -> list[str]:
    if not memory:
        return []
    rows = [(name, format_size(size)) for name, size in memory.items()]
    return ["", "memory", *columns(("what", "size"), "lr", rows)]


def _alone_lines(alone: Alone) -> list[str]:
    rows = [
        (
            "TTFT",
            milliseconds(alone.measured_ttft),
            milliseconds(alone.ttft),
            percent(alone.ttft / alone.measured_ttft - 1),
        ),
        (
            "TPOT",
            milliseconds(alone.measured_tpot),
            milliseconds(alone.tpot),
            percent(alone.tpot / alone.measured_tpot - 1),
        ),
    ]
    title = (
        f"one request alone, {alone.prompt} tokens in and {alone.output} out, ms, without an engine's host"
    )
    return ["", title, *columns(("latency", "measured", "simulated", "difference"), "lrrr", rows)]
