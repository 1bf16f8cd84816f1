"""A profile of the quiet microbenchmark's steps, against the steps that the quiet runs logged; no engine model.

Nothing is fitted to a run. The machine drifts, so each run is also scaled by its own speed probes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

from calibrate.engine_steps import EngineStep, read
from calibrate.importers import ImportRequest
from calibrate.importers.engine_steps import draft
from capsim.catalog import load_model
from capsim.catalog.data import data_folder
from capsim.cost import BatchShape, ProfileCost
from tests.truth.quiet_run import FOLDER, PROBES, Quiet, runs
from tests.truth.table import Table, percent

STEPS = FOLDER / "steps"
LARGE_DECODE, LARGE_CHUNK = 8, 256
"""Sequences, and tokens of a step, from which it is large: a quarter and half of the engine's limits."""
KINDS = tuple(f"{regime}, {size}" for regime in ("decode", "prefill", "mixed") for size in ("small", "large"))


@dataclass(frozen=True)
class Errors:
    """Steps of one kind in one run.

    Attributes:
        steps: how many.
        measured, priced: seconds of all of them, as logged and by the profile.
    """

    steps: int
    measured: float
    priced: float


@cache
def profile_cost(repeated: bool = False) -> ProfileCost:
    """The step cost of the profile.

    Args:
        repeated: of repetitions alone: the first step of each shape that has a prompt is left out.
    """
    model = load_model(str(data_folder("benchmarks") / "tinyllama.yaml"))
    request = ImportRequest(model, gpu="cpu-core", engine_version="0.32.0")
    logged = read(STEPS / "controlled.csv.gz")
    if repeated:
        logged = replace(logged, steps=tuple(_repetitions(logged.steps)))
    return ProfileCost(draft(logged, request).profile(), model, "bfloat16", "bfloat16", 1)


def _repetitions(steps: Iterable[EngineStep]) -> Iterator[EngineStep]:
    seen = set()
    for step in steps:
        shape = tuple(sorted(step.batch.chunks)), step.batch.decodes
        if shape in seen or not step.batch.chunks:
            yield step
        seen.add(shape)


@cache
def steps_of(run: Quiet) -> tuple[EngineStep, ...]:
    """The steps that a run logged."""
    name = f"{run.row['config'].removeprefix('quiet_')}.{run.row['run']}.csv.gz"
    return read(STEPS / name).steps


@cache
def errors(run: Quiet, repeated: bool = False) -> dict[str, Errors]:
    """The steps of a run by kind, priced by the profile or by that of repetitions."""
    kinds: dict[str, list[EngineStep]] = {kind: [] for kind in KINDS}
    for step in steps_of(run):
        kinds[kind_of(step.batch)].append(step)
    return {kind: _errors(steps, profile_cost(repeated)) for kind, steps in kinds.items()}


def kind_of(batch: BatchShape) -> str:
    """One of `KINDS`."""
    if not batch.chunks:
        return f"decode, {'large' if batch.decodes >= LARGE_DECODE else 'small'}"
    tokens = batch.decodes + sum(chunk.new for chunk in batch.chunks)
    regime = "mixed" if batch.decodes else "prefill"
    return f"{regime}, {'large' if tokens >= LARGE_CHUNK else 'small'}"


def _errors(steps: Sequence[EngineStep], cost: ProfileCost) -> Errors:
    return Errors(
        len(steps), sum(step.seconds for step in steps), sum(cost.step(step.batch) for step in steps)
    )


def speed(run: Quiet, repeated: bool = False) -> float:
    """How much longer the decodes of the run's probes took than the profile says."""
    cost = profile_cost(repeated)
    ratios = [
        float(run.row[f"probe_{when}_{name}_ms"]) / 1e3 / cost.step(PROBES[name])
        for when in ("before", "after")
        for name in PROBES
    ]
    return sum(ratios) / len(ratios)


def all_runs(kind: str, repeated: bool = False) -> float:
    """Error of all runs' steps of a kind, each run at the speed of its probes."""
    found = [(speed(run, repeated), errors(run, repeated)[kind]) for run in runs()]
    parts = [(factor * each.priced, each.measured) for factor, each in found]
    return sum(priced for priced, _ in parts) / sum(measured for _, measured in parts) - 1


def table() -> Table:
    """Each run's steps by kind."""
    rows = []
    for run in runs():
        found, factor = errors(run), speed(run)
        rows.append((run.name, "steps", *(f"{each.steps:,}" for each in found.values())))
        rows.append((run.name, "as fitted", *(_cell(each, 1.0) for each in found.values())))
        rows.append(
            (run.name, f"x {factor:.3f} by probes", *(_cell(each, factor) for each in found.values()))
        )
    for repeated, label in ((False, "by probes"), (True, "by probes, repetitions alone")):
        rows.append(("all runs", label, *(percent(all_runs(kind, repeated)) for kind in KINDS)))
    return Table(
        "A profile of controlled batches against the steps of live runs (vLLM 0.32.0, CPU)",
        (
            "Told: `capsim calibrate import --from engine-steps` of 2,872 logged steps of controlled batches, on the "
            "same machine at another time. Errors of all seconds of a kind of step. Nothing is fitted to a run; no "
            "engine model is involved, since the batches are the logged ones.",
            f"Large: {LARGE_DECODE} decodes and more, or with prompts {LARGE_CHUNK} tokens and more.",
        ),
        ("run", "", *KINDS),
        tuple(rows),
        labels=2,
        causes=(
            "The factor is the run's own, from probes of about a second before and after it that decode. Speed that "
            "changes within the run, or for prompts otherwise than for decodes, is not in it.",
            "A step with a prompt counts in the profile by the first step of its shape alone. In the controlled "
            "batches each shape was repeated up to ten times, and the first step took longer than the others, which "
            "admitted a prompt as well; a live run repeats hardly any shape. The last row is a profile of the "
            "repetitions: it leaves a gap in steps with prompts. That steps which admit were priced too low is thus "
            "a matter of shapes that are new, and not of admission.",
        ),
    )


def _cell(found: Errors, factor: float) -> str:
    return percent(factor * found.priced / found.measured - 1) if found.steps else ""
