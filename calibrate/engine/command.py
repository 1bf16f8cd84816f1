"""``capsim calibrate engine`` and ``capsim calibrate replay``: a real engine, measured in this process."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

from calibrate.engine import step_log
from calibrate.engine.engine import ENGINES, Engine, EngineSettings, start, stated_arguments
from calibrate.engine.measure import Measurement, measure
from calibrate.engine.model_folder import model_of
from calibrate.engine.parts import parts_of, parts_text
from calibrate.engine.replay import replay_trace
from calibrate.engine.result import result
from calibrate.engine.trace import BLOCK_SIZE, at_rate, read_trace
from calibrate.engine_steps import EngineHeader, read
from calibrate.options import LIMITS, Command, json_option, limit_options
from capsim.cost.profile_tables import MODEL_SHAPES
from capsim.errors import BadInput, Fault

_OPTIONS = (
    click.option(
        "--engine",
        type=click.Choice(list(ENGINES)),
        default="vllm",
        show_default=True,
        help="Installed in this Python.",
    ),
    click.option("--model", required=True, help="Name in the catalog, or a folder with a config.json."),
    limit_options({name: getattr(EngineSettings, name) for name in LIMITS}),
    click.option(
        "--tp", type=click.IntRange(min=1), default=1, show_default=True, help="Tensor-parallel ranks."
    ),
    click.option("--dtype", default="bfloat16", show_default=True, help="Of weights and KV."),
    click.option(
        "--enable-prefix-caching", is_flag=True, help="Let prompts that begin alike share their KV cache."
    ),
    click.option(
        "--engine-arg",
        "more",
        multiple=True,
        metavar="NAME=VALUE",
        help="Any other argument of the engine, by its own name, e.g. block_size=32.",
    ),
    click.option(
        "--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Of all that is drawn."
    ),
)


def _engine_options(command: Command) -> Command:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@click.command()
@_engine_options
@click.option(
    "--minutes",
    type=click.FloatRange(min=0, min_open=True),
    default=3.0,
    show_default=True,
    help="Of measuring, after the engine's start; at least one round of all batches.",
)
@click.option(
    "--out", required=True, type=click.Path(path_type=Path, dir_okay=False), help="Steps to write, CSV."
)
@json_option
def engine(minutes: float, out: Path, as_json: bool, seed: int, **options: Any) -> None:
    """Log the steps of a real engine that runs controlled batches with random weights.

    Decodes, prompts and both together, over the engine's limits. Ctrl-C keeps what was measured.

    \b
    Example:
      capsim calibrate engine --model llama-3.1-8b --max-num-seqs 128 --max-num-batched-tokens 2048 --out steps.csv
    """  # noqa: D301 (click looks for the character, not for two)
    measurement = Measurement()
    with TemporaryDirectory() as folder, started(Path(folder), options) as running:
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(measure(running, 60 * minutes, seed, measurement, say))
        origin = measurement.spans[0].first if measurement.spans else 0.0
        rows = list(step_log.steps(running.log, measurement.spans, origin))
        if not rows:
            raise BadInput(Fault(str(out), "no step was measured", expected="more time"))
        count = step_log.write(out, running.header, rows)
    answer = {
        "steps": str(out),
        "count": count,
        "cases": len(measurement.spans),
        **_told(running.header),
        "parts": parts_of(read(out).steps),
    }
    click.echo(json.dumps(answer, indent=2) if as_json else _text(answer))


@contextlib.contextmanager
def started(folder: Path, options: dict[str, Any]) -> Iterator[Engine]:
    """An engine by the options of a command; stopped in the end."""
    model, config = model_of(options["model"], folder / "model")
    settings = EngineSettings(
        config,
        **{name: options[name] for name in LIMITS},
        dtype=options["dtype"],
        tensor_parallel_size=options["tp"],
        enable_prefix_caching=options["enable_prefix_caching"],
        more=stated_arguments(options["more"]),
    )
    say(f"starting {options['engine']}")
    running: Engine = start(options["engine"], settings, folder / "log")
    shapes = {name: getattr(model, name) for name in MODEL_SHAPES}
    running.header = replace(running.header, model=model.name, shapes=shapes)
    try:
        yield running
    finally:
        running.stop()


def say(what: str) -> None:
    """Progress, on stderr."""
    click.echo(what, err=True)


def _told(header: EngineHeader) -> dict[str, Any]:
    return {
        "engine": f"{header.engine} {header.version}",
        "device": header.device,
        "model": header.model,
        "settings": dict(header.settings),
    }


def _text(answer: dict[str, Any]) -> str:
    settings = ", ".join(f"{name} {value}" for name, value in answer["settings"].items())
    return "\n".join(
        [
            f"{answer['steps']}: {answer['count']:,} steps of {answer['cases']:,} cases",
            f"  engine    {answer['engine']}",
            f"  device    {answer['device']}",
            f"  model     {answer['model']}",
            f"  settings  {settings}",
            *parts_text(answer["parts"]),
        ]
    )


@click.command()
@_engine_options
@click.option(
    "--trace",
    required=True,
    type=click.Path(path_type=Path),
    help="Requests, in Mooncake's format of JSON Lines.",
)
@click.option(
    "--rate", type=click.FloatRange(min=0, min_open=True), help="Stretch time to so many requests/s."
)
@click.option("--requests", "most", type=click.IntRange(min=1), help="Replay no more than the first so many.")
@click.option(
    "--hash-block",
    type=click.IntRange(min=1),
    default=BLOCK_SIZE,
    show_default=True,
    help="Tokens of a hash id.",
)
@click.option(
    "--steps", type=click.Path(path_type=Path, dir_okay=False), help="Also write the logged steps, CSV."
)
@click.option("--label", default="replay", show_default=True, help="Of the run, in the file.")
@click.option(
    "--out", required=True, type=click.Path(path_type=Path, dir_okay=False), help="Result to write, JSON."
)
@json_option
def replay(
    trace: Path,
    rate: float | None,
    most: int | None,
    hash_block: int,
    steps: Path | None,
    label: str,
    out: Path,
    as_json: bool,
    seed: int,
    **options: Any,
) -> None:
    """Send a trace's requests to a real engine at their times, and write what its client saw.

    The result is a file as ``vllm bench serve`` writes it, for `capsim validate`. There is no server: requests are
    handed to the engine's client in this process.

    \b
    Example:
      capsim calibrate replay --model llama-3.1-8b --trace trace.jsonl --rate 2 --requests 200 --out result.json
    """  # noqa: D301 (click looks for the character, not for two)
    requests = at_rate(read_trace(trace)[:most], rate)
    with TemporaryDirectory() as folder, started(Path(folder), options) as running:
        run = asyncio.run(replay_trace(running, requests, seed, hash_block))
        if steps is not None:
            rows = step_log.steps(running.log, [step_log.Span(run.start, run.end)], run.start)
            step_log.write(steps, running.header, rows)
    members = result(run, running.header.model, label, rate)
    out.write_text(json.dumps(members) + "\n", encoding="utf-8")
    say(f"the client sent requests {1e3 * run.latest:.1f} ms late at most")
    scalars = {name: value for name, value in members.items() if not isinstance(value, list)}
    click.echo(json.dumps({"result": str(out), **scalars}, indent=2) if as_json else _summary(out, members))


def _summary(out: Path, members: dict[str, Any]) -> str:
    lines = [f"{out}: {members['completed']} requests in {members['duration']:.1f} s"]
    for metric in ("ttft", "tpot", "itl", "e2el"):
        figures = [
            f"{name} {members[f'{name}_{metric}_ms']:,.2f} ms"
            for name in ("mean", "p50", "p95")
            if f"{name}_{metric}_ms" in members
        ]
        lines.append(f"  {metric:<6}{', '.join(figures) or '-'}")
    lines.append(f"  output tokens/s {members['output_throughput']:,.1f}")
    return "\n".join(lines)
