"""What a raw file says of the tables made of it: errors on what they have not seen, and what else was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from calibrate.draft import Draft
from calibrate.microbenchmark.case import ATTENTION, MEMORY, REQUEST, STEP
from calibrate.microbenchmark.raw_file import Raw
from calibrate.microbenchmark.row import Row
from calibrate.regime import REGIMES, errors_of, kind_of
from capsim.cost import BatchShape, ProfileCost
from capsim.cost.profile_tables import HeldOut


@dataclass(frozen=True)
class Repeats:
    """How well a measurement agrees with itself, a regime.

    Attributes:
        regime: ``prefill``, ``decode`` or ``mixed``.
        spread: median over the rows of the spread of their repeats.
        again: median relative difference between a step and the same step later in the run; None where none was
            measured twice.
    """

    regime: str
    spread: float
    again: float | None


@dataclass(frozen=True)
class Alone:
    """One request on an idle decoder: seconds to the first token and between the further ones."""

    prompt: int
    output: int
    measured_ttft: float
    measured_tpot: float
    ttft: float
    tpot: float


def cost_of(draft: Draft) -> ProfileCost:
    """What a draft's steps cost."""
    stated = draft.provenance
    return ProfileCost(
        draft.profile(), stated.model, stated.dtype, stated.kv_dtype, stated.tensor_parallel_size
    )


def steps_of(raw: Raw, name: str) -> list[Row]:
    """Whole steps of a name, those that failed left out; one that was measured twice has the mean seconds of both."""
    first = [row for row in _steps(raw, 0) if row.case.name == name]
    later = {row.case: row for row in _steps(raw, 1)}
    return [_mean(row, later.get(replace(row.case, round=1), row)) for row in first]


def _steps(raw: Raw, turn: int) -> list[Row]:
    return [row for row in raw.rows if row.case.kind == STEP and row.sample and row.case.round == turn]


def _mean(row: Row, later: Row) -> Row:
    if row.sample is None or later.sample is None:
        raise TypeError(f"{row.case} has no seconds")
    seconds = (row.seconds + later.seconds) / 2
    return replace(row, sample=replace(row.sample, seconds=seconds))


def step_errors(cost: ProfileCost, rows: Sequence[Row]) -> tuple[HeldOut, ...]:
    """Relative errors on whole steps."""
    batches = [row.case.shape.shape for row in rows]
    return errors_of(batches, [cost.step(batch) for batch in batches], [row.seconds for row in rows])


def attention_errors(cost: ProfileCost, raw: Raw) -> tuple[HeldOut, ...]:
    """Relative errors on one layer's attention at shapes that were kept from the tables."""
    rows = [row for row in raw.rows if row.case.kind == ATTENTION and row.case.name == "held out"]
    rows = [row for row in rows if row.sample]
    batches = [row.case.shape.shape for row in rows]
    layers = cost.profile.attention.times
    return errors_of(
        batches,
        [cost.parts(batch)["attention"] / layers for batch in batches],
        [row.seconds for row in rows],
    )


def repeats_of(raw: Raw, name: str) -> tuple[Repeats, ...]:
    """How well whole steps of a name agree with themselves, a regime that has some."""
    later = {replace(row.case, round=0): row.seconds for row in _steps(raw, 1)}
    found = []
    for regime in REGIMES:
        mine = [
            row
            for row in _steps(raw, 0)
            if row.case.name == name and kind_of(row.case.shape.shape).regime == regime
        ]
        twice = [abs(later[row.case] / row.seconds - 1) for row in mine if row.case in later]
        if mine:
            spread = float(np.median([row.sample.spread for row in mine if row.sample]))
            found.append(Repeats(regime, spread, float(np.median(twice)) if twice else None))
    return tuple(found)


def alone_of(cost: ProfileCost, raw: Raw) -> Alone | None:
    """The request alone: measured, and simulated as a prefill step and decode steps, neither with an engine's host."""
    row = next((each for each in raw.rows if each.case.kind == REQUEST and not each.failed), None)
    if row is None:
        return None
    prompt, output = row.case.shape.tokens, row.case.count
    contexts = range(prompt + 1, prompt + output)
    decodes = [
        cost.step(BatchShape((), 1, context, squared_context=context**2, largest_context=context))
        for context in contexts
    ]
    return Alone(
        prompt,
        output,
        row.figure("ttft"),
        row.figure("tpot"),
        cost.step(row.case.shape.shape),
        sum(decodes) / len(decodes),
    )


def graphs_of(raw: Raw) -> dict[int, tuple[float, float]]:
    """Seconds of decode steps with CUDA graphs and without, by decodes."""
    found: dict[str, dict[int, float]] = {"graph": {}, "eager": {}}
    for row in raw.rows:
        if row.case.kind == STEP and row.case.name in found and row.sample:
            found[row.case.name][len(row.case.shape.contexts)] = row.seconds
    return {
        count: (seconds, found["eager"][count])
        for count, seconds in sorted(found["graph"].items())
        if count in found["eager"]
    }


def memory_of(raw: Raw) -> dict[str, int]:
    """Bytes by what was measured."""
    found = {}
    for row in raw.rows:
        if row.case.kind == MEMORY and not row.failed:
            name = row.case.name
            if name == "activations":
                name = f"activations of {row.case.count:,} tokens"
            found[name] = int(row.figure("bytes"))
    return found


def failures_of(raw: Raw) -> dict[str, int]:
    """How many cases failed, by why."""
    failures: dict[str, int] = {}
    for row in raw.rows:
        if row.failed:
            failures[row.failed] = failures.get(row.failed, 0) + 1
    return failures
