"""Runs of a measurement, simulated with the profile of the same measurement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from calibrate.engine_steps import EngineStep, read
from calibrate.importers import ImportRequest
from calibrate.importers.engine_steps import read as import_steps
from calibrate.table import read_table
from capsim.catalog import load_model
from capsim.catalog.data import data_folder
from capsim.cost import ProfileCost, StepCost
from capsim.cost.scaled import ScaledCost
from capsim.fleet import FleetConfiguration
from capsim.fleet.log import RunLog
from capsim.fleet.simulation import simulate
from capsim.measure.conservation import check_conservation
from capsim.measure.inter_token import inter_token_gaps
from capsim.measure.latency import user_latencies
from tests.loop.load import LOADS, Load, simulated_requests
from tests.loop.measured import STEPS, Run, figures, read_runs

MODEL = data_folder("benchmarks") / "tinyllama.yaml"
SATURATED = 200
"""Requests that are there at once when the capacity is sought."""
Floats = NDArray[np.float64]
Figures = dict[str, float]


@dataclass(frozen=True)
class Compared:
    """One run, measured and simulated.

    Attributes:
        load, repeat: which run.
        requests: how many.
        rate: requests a second.
        speed: seconds of the steps that it logged over seconds by the profile; all steps of the simulation are so much
            longer.
        probes: the same of the fixed work before it and after it.
        decode_steps, prompt_steps: error of the scaled profile on the batches that the run logged, without any
            engine model.
        noise: 95th percentile over median of the seconds of decode steps, each over its seconds by the profile.
        measured, simulated: figures, milliseconds and tokens/s.
        by_probes: the figures of a simulation whose speed is the mean of the probes'.
        preemptions: measured and simulated.
        cached: tokens found in the cache, measured and simulated.
    """

    load: str
    repeat: int
    requests: int
    rate: float
    speed: float
    probes: tuple[float, float]
    decode_steps: float
    prompt_steps: float
    noise: float
    measured: Figures
    simulated: Figures
    by_probes: Figures
    preemptions: tuple[int, int]
    cached: tuple[int, int]

    def error(self, figure: str, *, by_probes: bool = False) -> float:
        """(simulated - measured) / measured."""
        simulated = self.by_probes if by_probes else self.simulated
        return simulated[figure] / self.measured[figure] - 1


@cache
def cost_of(steps: Path) -> ProfileCost:
    """The step cost of a file of steps."""
    model = load_model(str(MODEL))
    draft = import_steps(steps, ImportRequest(model, gpu="cpu-core"))
    return ProfileCost(draft.profile(), model, "bfloat16", "bfloat16", 1)


def capacity(load: Load, kv_tokens: int, cost: StepCost) -> float:
    """Requests a second of a load that an engine serves when all are there at once."""
    requests = simulated_requests(load.requests(1.0, float(SATURATED)))
    at_once = type(requests)(0 * requests.arrival, requests.prompt, requests.output, requests.prefixes)
    log = simulate(at_once, FleetConfiguration(1), load.service.configuration(kv_tokens), cost)
    return len(requests) / float(log.requests.finish.max())


def compare(folder: Path) -> list[Compared]:
    """All runs of a measurement."""
    cost = cost_of(folder / STEPS)
    return [_compared(run, folder, cost) for run in read_runs(folder)]


def _compared(run: Run, folder: Path, cost: StepCost) -> Compared:
    probes, logged = read(run.probes(folder)).steps, read(run.steps(folder)).steps
    before, after = (_speed(each, cost) for each in _halves(probes))
    speed = _total_speed(logged, cost)
    log = _simulated(run, ScaledCost(cost, speed))
    chunks = [step for step in logged if step.batch.chunks]
    alone = [step for step in logged if not step.batch.chunks]
    return Compared(
        run.load,
        run.repeat,
        len(run.requests),
        run.rate,
        speed,
        (before, after),
        speed / _total_speed(alone, cost) - 1,
        speed / _total_speed(chunks, cost) - 1,
        _noise(alone, cost),
        figures(np.array(run.sent), [np.array(times) for times in run.tokens]),
        simulated_figures(log),
        simulated_figures(_simulated(run, ScaledCost(cost, (before + after) / 2))),
        (_preemptions(run.steps(folder)), int(log.requests.preemptions.sum())),
        (sum(run.cached), int(log.requests.cached.sum())),
    )


def _simulated(run: Run, cost: StepCost) -> RunLog:
    [load] = (load for load in LOADS if load.name == run.load)
    engine = load.service.configuration(run.kv_tokens)
    log = simulate(simulated_requests(run.requests), FleetConfiguration(1), engine, cost)
    check_conservation(log)
    return log


def _halves(probes: Sequence[EngineStep]) -> tuple[Sequence[EngineStep], Sequence[EngineStep]]:
    """Before and after the run: the longest pause lies between."""
    starts = np.array([step.start for step in probes])
    place = int(np.argmax(np.diff(starts))) + 1
    return probes[:place], probes[place:]


def _speed(steps: Sequence[EngineStep], cost: StepCost) -> float:
    """Seconds measured over seconds by the profile: mean of the medians of steps with and without a chunk."""
    ratios: dict[bool, list[float]] = {True: [], False: []}
    for step in steps:
        ratios[bool(step.batch.chunks)].append(step.seconds / cost.step(step.batch))
    return float(np.mean([np.median(each) for each in ratios.values()]))


def _total_speed(steps: Sequence[EngineStep], cost: StepCost) -> float:
    if not steps:
        return float("nan")
    return sum(step.seconds for step in steps) / sum(cost.step(step.batch) for step in steps)


def _noise(steps: Sequence[EngineStep], cost: StepCost) -> float:
    middle, high = np.percentile([step.seconds / cost.step(step.batch) for step in steps], (50, 95))
    return float(high / middle)


def _preemptions(path: Path) -> int:
    return int(read_table(path, ("n_preempted",)).counts("n_preempted").sum())


def simulated_figures(log: RunLog) -> Figures:
    """The figures of a simulation, defined as `tests.loop.measured.figures` defines those of a client."""
    user = user_latencies(log)
    gaps = inter_token_gaps(log.leaps, log.resumed_gaps)
    found = {
        f"{metric} p{place}": 1e3 * float(np.nanpercentile(seconds, place))
        for metric, seconds in (
            ("TTFT", user.ttft),
            ("TPOT", user.tpot),
            ("ITL", np.repeat(gaps.seconds, gaps.count)),
        )
        for place in (50, 95)
    }
    return {**found, "tokens/s": float(log.requests.output.sum() / log.requests.finish.max())}
