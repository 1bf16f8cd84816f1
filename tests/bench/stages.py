"""`python -m tests.bench.stages`: what the CPU time of one ``capsim run`` goes to, interpreter start included."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from capsim.fleet.simulation import simulate
from capsim.measure.conservation import check_conservation
from capsim.plan.deployment import deploy
from capsim.plan.experiment import Experiment, draw, fleet_of, measure
from capsim.plan.runner import Runner
from capsim.plan.saturated_rates import saturated_rates
from capsim.scenario import load
from tests.bench.process import SCENARIO

RATE = 10.0


def stages(count: int) -> Iterator[str]:
    """Name each stage once it is done."""
    yield "interpreter and imports"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "process.yaml"
        path.write_text(SCENARIO, encoding="utf-8")
        deployment = deploy(load(path))
    yield "scenario, catalog, profile"
    experiment = Experiment("resample", 1, rate=RATE, duration=count / RATE)
    requests = draw(deployment, experiment)
    yield "requests drawn"
    log = simulate(requests, fleet_of(deployment, experiment), deployment.engine, deployment.cost)
    yield "engine and fleet"
    check_conservation(log)
    yield "conservation checked"
    measure(deployment, experiment, log)
    yield "summaries"
    saturated_rates(Runner(deployment))
    yield "saturated rate, apart"


def main(count: int) -> None:
    """Print seconds and share of each stage."""
    ends = [0.0]
    names = []
    for name in stages(count):
        names.append(name)
        ends.append(time.process_time())
    print(f"{count:,} requests, CPU seconds\n")
    for name, start, end in zip(names, ends, ends[1:], strict=False):
        print(f"{name:<28} {end - start:>7.2f} {(end - start) / ends[-1]:>6.0%}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
