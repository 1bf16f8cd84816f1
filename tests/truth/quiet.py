"""vLLM on a CPU from end to end: a trace's arrivals and lengths, a microbenchmark's step cost, no step log.

The step cost is the profile of the quiet microbenchmark's steps, see `tests.truth.quiet_profile`. The machine
drifts, so each run is scaled by its own speed probes: fixed work just before and just after it (one sequence that
decodes; eight). A run's factor is the mean over those four medians of what was measured over what the profile says
of the same batch; the microbenchmark itself has no probes, and the profile is its mean speed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from capsim.cost.scaled import ScaledCost
from capsim.fleet import FleetConfiguration
from capsim.fleet.simulation import simulate
from capsim.measure.conservation import check_conservation
from capsim.measure.inter_token import inter_token_gaps
from capsim.measure.latency import user_latencies
from tests.plain import plain_limits, plain_sequences
from tests.truth.quiet_profile import profile_cost, speed
from tests.truth.quiet_run import FIGURES, Figures, Quiet, requests, runs
from tests.truth.quiet_steps import DriftingCost, DriftingReplica, LoggedSteps, logged
from tests.truth.table import INDISTINCT, MISS, Table, Verdict, percent

TARGET = 0.10
LOST = 1.0
"""Spread of repeats above which no error can be told."""
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Outcome:
    """Errors of one run.

    Attributes:
        speed: factor of every step by the run's probes.
        predicted: errors of the figures with it.
        logged: the run's steps.
        diagnosis: errors with the speeds of the logged steps instead, by kind and time; what is left is not
            of the steps' length.
    """

    speed: float
    predicted: Figures
    logged: LoggedSteps
    diagnosis: Figures


@cache
def outcome(run: Quiet) -> Outcome:
    """Predict a run, and tell the share of the steps in its errors."""
    factor, steps = speed(run), logged(run)
    return Outcome(factor, _errors(run, simulated(run, factor)), steps, _errors(run, drifting(run, steps)))


def _errors(run: Quiet, found: Figures) -> Figures:
    real = run.measured()
    return {name: found[name] / real[name] - 1 for name in FIGURES}


def simulated(run: Quiet, factor: float) -> Figures:
    """The run's figures with a factor on every step: milliseconds, and tokens/s up to the last token."""
    cost = ScaledCost(profile_cost(), factor)
    log = simulate(requests(run.row["trace"]), FleetConfiguration(1), run.engine, cost)
    check_conservation(log)
    user = user_latencies(log)
    gaps = inter_token_gaps(log.leaps, log.resumed_gaps)
    rate = float(log.requests.output.sum() / log.requests.finish.max())
    return _figures(user.ttft, user.tpot, np.repeat(gaps.seconds, gaps.count), rate)


def drifting(run: Quiet, steps: LoggedSteps) -> Figures:
    """The same at the speeds of the run's own log, by the plain replica, which alone can follow the time."""
    engine, trace = run.engine, requests(run.row["trace"])
    replica = DriftingReplica(
        DriftingCost(profile_cost(), steps),
        **plain_limits(engine),
    )
    sequences = plain_sequences(trace)
    replica.run(list(sequences))
    times = [np.array(sequence.token_times) for sequence in sequences]
    return _figures(
        np.array([each[0] for each in times]) - trace.arrival,
        np.array([(each[-1] - each[0]) / (len(each) - 1) if len(each) > 1 else np.nan for each in times]),
        np.concatenate([np.diff(each) for each in times]),
        float(trace.output.sum() / max(each[-1] for each in times)),
    )


def _figures(ttft: Floats, tpot: Floats, gaps: Floats, rate: float) -> Figures:
    found = {
        f"{metric} p{place}": 1e3 * float(np.nanpercentile(seconds, place))
        for metric, seconds in (("TTFT", ttft), ("TPOT", tpot), ("ITL", gaps))
        for place in (50, 95)
    }
    return {**found, "tokens/s": rate}


def table() -> Table:
    """Each run against its prediction, and how far repeats of each trace differ."""
    rows = []
    for run in runs():
        found = outcome(run)
        steps = (
            percent(found.speed / found.logged.decode_steps - 1),
            percent(found.speed / found.logged.prompt_steps - 1),
            f"{min(found.logged.windows):.2f} to {max(found.logged.windows):.2f}",
        )
        cells = (
            percent(error, TARGET if run.judged(name) else None, run.repeats(name))
            for name, error in found.predicted.items()
        )
        rows.append((run.name, f"predicted, speed {found.speed:.3f}", *steps, *cells))
        own = "diagnosis, speeds of its log"
        rows.append((run.name, own, "", "", "", *map(percent, found.diagnosis.values())))
    for (trace, config), run in {(run.row["trace"], run.row["config"]): run for run in runs()}.items():
        cells = (
            f"{run.repeats(name):.0%}" + (" unresolved" if run.repeats(name) > LOST else "")
            for name in FIGURES
        )
        label = f"{run.spread['n_runs']} repeats, largest / smallest - 1"
        rows.append((f"{config.removeprefix('quiet_')} {trace}", label, "", "", "", *cells))
    return Table(
        "vLLM 0.32.0 on a CPU from end to end, without a server",
        (
            "Told: arrivals and lengths of the trace, the engine's limits, the profile of controlled batches whose "
            "steps stand above, and the speed of the machine by probes before and after each run. No step log of "
            "a run. Nothing is fitted to one.",
            f"Target: {TARGET:.0%} or the spread of repeats, whichever is larger; `{INDISTINCT}` is above "
            f"{TARGET:.0%} and inside the spread, `{MISS}` outside both. TTFT of bursty, knee and preempt "
            "is shown and not judged: requests queue there.",
        ),
        ("run", "", "decode steps", "steps with prompts", "speed within the run", *FIGURES),
        tuple(rows),
        labels=2,
        causes=(
            "`unresolved`: repeats differ by more than a factor of two, and a small error confirms "
            "nothing. Part of them ran while the machine had other work.",
            "`decode steps` and `steps with prompts`: the scaled step cost of the batches that the run "
            "logged, against their logged seconds. This is the step cost's error alone, without an engine "
            "model. `speed within the run`: seconds logged over seconds by the step cost, in windows of "
            "four seconds.",
            "`diagnosis` replaces the probes' one speed by those of the run's own log, by window and by "
            "kind of step (decodes or prompts, few or many). No longer a prediction, it leaves the share of "
            f"the scheduler, the arrivals and the noise of single steps: at most {_left('TPOT')} of TPOT and "
            f"{_left('ITL')} of ITL, {_left('TTFT p50')} of TTFT p50 and {_left('TTFT p95')} of TTFT p95. So most "
            "of what is missed is the step's length.",
            "Why it is: probes miss the mean speed of the run between them by up to "
            f"{max(abs(outcome(run).speed / logged(run).speed - 1) for run in runs()):.0%}; the speed "
            "changes within a run, bursty's by a fifth, and one factor cannot follow that; and a run's steps with "
            f"prompts are priced from {min(map(_lean, runs())) - 1:+.0%} to {max(map(_lean, runs())) - 1:+.0%} "
            "otherwise than its decode steps.",
            "What the diagnosis leaves of TTFT p50 is below 0 in all runs but preempt, whose requests queue: "
            "about 1 ms from the client to the engine and 1 to 2 ms back are not told.",
            "The scheduler's share is none where it can be told: replayed by the logs of preempt, prefix and "
            "prefix_off, every step is exactly the log's.",
        ),
        verdicts=tuple(map(_verdict, FIGURES)),
    )


def _verdict(figure: str) -> Verdict:
    judged = [run for run in runs() if run.judged(figure)]
    sizes = [(abs(outcome(run).predicted[figure]), run.repeats(figure)) for run in judged]
    inside = sum(size <= TARGET for size, _ in sizes)
    outside = sum(size > max(TARGET, spread) for size, spread in sizes)
    unclear = len(sizes) - inside - outside
    found = f"{inside} of {len(sizes)} runs within {TARGET:.0%}, {unclear} within the spread alone"
    asked = f"{TARGET:.0%} or the spread of repeats"
    return Verdict(figure, asked, found + (f", {outside} outside" if outside else ""), not outside)


def _lean(run: Quiet) -> float:
    """Price of a run's steps with prompts over that of its decode steps, each against its logged seconds."""
    return logged(run).decode_steps / logged(run).prompt_steps


def _left(figure: str) -> str:
    """The largest error that the diagnosis leaves in a figure, or in all figures of a metric."""
    left = (
        abs(error)
        for run in runs()
        for name, error in outcome(run).diagnosis.items()
        if name.startswith(figure)
    )
    return f"{max(left):.1%}"
