"""What the measured runs on GPUs recorded every second, against the step cost alone.

Neither run has a log of its steps. In a second without a prompt all tokens are those of decodes. On the RTX PRO 6000,
where nothing is preempted, their number and contexts follow from the requests' own records: the tokens of such a second
test the step cost, whatever the scheduler did before. On the RTX 4090 the ten seconds after the first requests have
filled the memory serve: nothing is admitted then, in the run or in the simulation.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capsim.cost import BatchShape
from tests.truth.runs import AMPLE, FOLDER, SKEWED, STARVED, MeasuredRun, measured, simulated, step_cost
from tests.truth.table import Table, percent

BANDS = ((1, 32), (33, 63), (64, 127), (128, 128))
"""Decodes, by what the attention kernels were measured at: 32, 64 and 128 are, nothing in between."""
MOMENTS = 20
"""Of each second, at which the batch is looked at."""
FULL = (6, 16)
"""Seconds of the run on the RTX 4090 between which nothing is admitted."""
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Band:
    """Seconds in which so many sequences decoded and nothing else happened.

    Attributes:
        fewest, most: decodes.
        seconds: how many.
        measured: mean seconds of a step, by the tokens that the engine counted.
        simulated: the same by the step cost.
    """

    fewest: int
    most: int
    seconds: int
    measured: float
    simulated: float


def table() -> Table:
    """Steps without a chunk."""
    rows: list[tuple[str, ...]] = [
        (
            AMPLE.name,
            f"{band.fewest} to {band.most}" if band.most > band.fewest else f"{band.most}",
            f"{band.seconds}",
            f"{1e3 * band.measured:.1f} ms",
            f"{1e3 * band.simulated:.1f} ms",
            percent(band.simulated / band.measured - 1),
        )
        for band in bands(AMPLE)
    ]
    for run in (STARVED, SKEWED):
        first, last = FULL
        real, found = tokens_between(run, first, last)
        per_token = [(last - first) / tokens for tokens in (real, found)]
        rows.append(
            (
                run.name,
                "falling",
                f"{last - first}",
                *(f"{1e6 * each:.0f} us a token" for each in per_token),
                percent(per_token[1] / per_token[0] - 1),
            )
        )
    return Table(
        "Step cost and engine told apart, as far as these runs allow",
        (
            "Neither run logged its steps, but both recorded their tokens every second. These are seconds without a "
            "chunk. RTX PRO 6000: mean step, measured (decodes over tokens/s) and by the step cost of the measured "
            "run's own decodes and contexts, nothing fitted. RTX 4090: seconds 6 to 16, in which its memory is full "
            "and nothing is admitted, measured and simulated.",
        ),
        ("run", "decodes", "seconds", "measured", "simulated", "error"),
        tuple(rows),
        labels=2,
    )


def bands(run: MeasuredRun) -> list[Band]:
    """Steps without a chunk by their number of decodes, of a run without preemptions."""
    seconds = _seconds(run)
    quiet = np.flatnonzero((seconds["prompt_tokens"] == 0) & (seconds["running"] > 0))
    batches = [_decoding(run, float(seconds["second"][row])) for row in quiet]
    decodes, rates = np.array(batches).T
    tokens = seconds["generated_tokens"][quiet]
    kept = []
    for fewest, most in BANDS:
        inside = (np.round(decodes) >= fewest) & (np.round(decodes) <= most)
        total = decodes[inside].sum()  # of all these seconds: decodes / tokens is a step
        kept.append(
            Band(fewest, most, int(inside.sum()), total / tokens[inside].sum(), total / rates[inside].sum())
        )
    return kept


def tokens_between(run: MeasuredRun, first: int, last: int) -> tuple[int, int]:
    """Tokens generated after second `first` until second `last`, measured and simulated."""
    seconds = _seconds(run)
    inside = (seconds["second"] > first) & (seconds["second"] <= last)
    leaps = simulated(run).leaps
    ends, made = [], []
    for start, steps, step, slope, decodes in zip(
        leaps.start, leaps.steps, leaps.first, leaps.slope, leaps.decodes, strict=True
    ):
        place = np.arange(1, int(steps) + 1)
        ends.append(start + place * step + slope * place * (place - 1) / 2)
        made.append(np.full(int(steps), decodes))
    times = np.concatenate(ends)
    kept = (times > first) & (times <= last)
    return int(seconds["generated_tokens"][inside].sum()), int(np.concatenate(made)[kept].sum())


def _decoding(run: MeasuredRun, second: float) -> tuple[float, float]:
    """Mean decodes in the second before this one's end, and tokens/s by the step cost."""
    real, cost = measured(run), step_cost(run)
    first = real["queued_s"] + real["ttft_queued_ms"] / 1e3
    last = real["queued_s"] + real["e2e_queued_ms"] / 1e3
    decodes, rates = [], []
    for moment in np.linspace(second - 1, second, MOMENTS + 1):
        there = (first <= moment) & (moment < last)
        if there.any():
            made = 1 + (real["output_toks"] - 1) * (moment - first) / (last - first)
            contexts = (real["input_toks"] + made)[there].astype(np.int64)
            batch = BatchShape((), len(contexts), int(contexts.sum()), largest_context=int(contexts.max()))
            decodes.append(len(contexts))
            rates.append(len(contexts) / cost.step(batch))
    return float(np.mean(decodes)), float(np.mean(rates))


def _seconds(run: MeasuredRun) -> dict[str, Floats]:
    with (FOLDER / f"{run.file}_seconds.csv").open() as file:
        rows = list(csv.DictReader(file))
    return {name: np.array([float(row[name]) for row in rows]) for name in rows[0]}
