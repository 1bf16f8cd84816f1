"""Measure the engine of this machine: ``python -m tests.loop.measure FOLDER``.

Controlled batches, a profile of them, and replays at shares of the capacity that this profile has in a simulation.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from calibrate.engine import step_log
from calibrate.engine.batches import Case, Driver
from calibrate.engine.engine import Engine, EngineSettings, start
from calibrate.engine.measure import Measurement, measure, spans_of
from calibrate.engine.model_folder import model_of
from calibrate.engine.replay import replay_trace
from calibrate.engine.trace import TraceRequest
from capsim.cost.profile_tables import MODEL_SHAPES
from tests.loop.load import BLOCK, LIMITS, LOADS, PLAIN, Load, Service
from tests.loop.measured import STEPS, Run
from tests.loop.simulated import MODEL, capacity, cost_of

PROBE = (
    *(Case("prefill", prompt=prompt) for prompt in (60, 100, 140, 180, 220)),
    Case("decode", 1, 100),
    Case("decode", 8, 100),
)
"""Fixed work of some seconds just before and just after a run: how fast is the machine now?"""

PRECEDENCE = 10
"""Of 20 steps of priority."""


@contextmanager
def started(service: Service, folder: Path) -> Iterator[Engine]:
    """The engine of a service."""
    model, config = model_of(str(MODEL), folder / "model")
    settings = EngineSettings(
        config, enable_prefix_caching=service.caching, more=service.arguments(), **LIMITS
    )
    engine = start("vllm", settings, folder / "log")
    shapes = {name: getattr(model, name) for name in MODEL_SHAPES}
    engine.header = replace(engine.header, model=model.name, shapes=shapes)
    try:
        yield engine
    finally:
        engine.stop()


async def controlled(engine: Engine, seconds: float, out: Path) -> None:
    """Write the steps of controlled batches."""
    measurement = Measurement()
    await measure(engine, seconds, 1, measurement, say)
    rows = step_log.steps(engine.log, measurement.spans, measurement.spans[0].first)
    step_log.write(out / STEPS, engine.header, rows)


async def run_load(
    engine: Engine, load: Load, repeat: int, rate: float, requests: Sequence[TraceRequest], out: Path
) -> None:
    """Replay a load between two probes, and write what was seen."""
    driver = Driver(engine, random.Random(f"{load.name} {repeat}"))
    before = await spans_of(driver, PROBE)
    found = await replay_trace(engine, requests, repeat, BLOCK, f"{load.name}-{repeat}")
    await asyncio.sleep(0.05)
    after = await spans_of(driver, PROBE)
    run = Run(
        load.name,
        repeat,
        engine.kv_tokens,
        rate,
        tuple(requests),
        tuple(answer.sent - found.start for answer in found.answers),
        tuple(tuple(time - found.start for time in answer.tokens) for answer in found.answers),
        tuple(answer.cached for answer in found.answers),
        found.latest,
    )
    run.write(out)
    for path, spans in (
        (run.probes(out), before + after),
        (run.steps(out), [step_log.Span(found.start, found.end)]),
    ):
        step_log.write(
            path, engine.header, step_log.steps(engine.log, spans, min(before[0].first, found.start))
        )
    say(f"{run.name}: {len(requests)} requests at {rate:.2f}/s, late by {1e3 * run.latest:.1f} ms at most")


def take_precedence() -> None:
    """Run before other work of this machine, as an engine that has it to itself does; best effort, for root alone."""
    with suppress(OSError):
        os.nice(-PRECEDENCE)
    with suppress(OSError):  # where sessions share the processor, theirs counts and not the process's
        Path("/proc/self/autogroup").write_text(str(-PRECEDENCE))


def say(what: str) -> None:
    """Progress, on stderr."""
    print(f"{time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)


def main() -> None:
    """Measure everything."""
    parser = ArgumentParser("python -m tests.loop.measure")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--minutes", type=float, default=2.0, help="of controlled batches")
    parser.add_argument("--seconds", type=float, default=30.0, help="of each replay")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    take_precedence()
    for service in dict.fromkeys([PLAIN, *(load.service for load in LOADS)]):
        with TemporaryDirectory() as folder, started(service, Path(folder)) as engine:
            say(f"{service.name}: vllm {engine.header.version} on {engine.header.device}")
            asyncio.run(_measured(engine, service, options))


async def _measured(engine: Engine, service: Service, options: Namespace) -> None:
    """All loads of a service, each repeat after all loads, since the speed of a machine drifts."""
    out: Path = options.folder
    if service == PLAIN:
        await controlled(engine, 60 * options.minutes, out)
    cost = cost_of(out / STEPS)
    wanted = [load for load in LOADS if load.service == service]
    rates = {load.name: load.share * capacity(load, engine.kv_tokens, cost) for load in wanted}
    for repeat in range(1, options.repeats + 1):
        for load in wanted:
            rate = rates[load.name]
            await run_load(engine, load, repeat, rate, load.requests(rate, options.seconds), out)


if __name__ == "__main__":
    main()
