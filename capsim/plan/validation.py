"""Would the simulator have predicted what a benchmark measured?"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean

from capsim.benchmark.record import BenchmarkRun
from capsim.errors import BadInput, Fault
from capsim.measure.steady import backlog_drift
from capsim.plan.benchmark_load import BenchmarkLoad, Uncheckable, load_of
from capsim.plan.deployment import Deployment
from capsim.plan.error_budget import HELD, LATENCIES, ErrorBudget
from capsim.plan.overhead import OverheadFit, fit_overhead, with_overhead
from capsim.plan.prediction import METRICS, Prediction, measured_figures, predict
from capsim.plan.progress import Progress, Silence
from capsim.plan.runner import Runner
from capsim.plan.saturated_rates import saturated_rates
from capsim.workload.demand import TraceDemand
from capsim.workload.trace import Trace

FEW = 500
"""Requests below which a p99 rests on fewer than five of them."""


@dataclass(frozen=True)
class Comparison:
    """One figure, measured and simulated.

    Attributes:
        measured: seconds, or a rate per second.
        simulated: one value a replication.
    """

    measured: float
    simulated: tuple[float, ...]

    @property
    def error(self) -> float | None:
        """(simulated - measured) / measured, the mean over replications; None where 0 was measured."""
        return fmean(self.errors) if self.measured else None

    @property
    def errors(self) -> tuple[float, ...]:
        """Of each replication."""
        return tuple(simulated / self.measured - 1 for simulated in self.simulated)


@dataclass(frozen=True)
class Check:
    """One run of a benchmark against its simulation.

    Attributes:
        name: unique among the runs.
        run: what was measured.
        load: what was simulated; None: it could not be.
        predictions: one a replication.
        comparisons: metric, then statistic.
        unchecked: what could not be checked and why, one sentence each.
        saturated_rate: requests/s of these lengths that the fleet completes when it is never idle; None in a closed
            loop.
        overloaded: why the simulated fleet is overloaded, empty if it is not. Latencies then depend on how long the run
            was, so they are shown and not judged.
        fitted: the overhead was fitted on this run, so it is shown and not judged.
    """

    name: str
    run: BenchmarkRun
    load: BenchmarkLoad | None = None
    predictions: tuple[Prediction, ...] = ()
    comparisons: Mapping[str, Mapping[str, Comparison]] = field(default_factory=dict)
    unchecked: tuple[str, ...] = ()
    saturated_rate: float | None = None
    overloaded: str = ""
    fitted: bool = False

    @property
    def counts(self) -> bool:
        """Whether this run's errors enter the score and the verdict."""
        return bool(self.comparisons) and not self.overloaded and not self.fitted

    def notes(self) -> Iterator[str]:
        """What to know of the comparison, one sentence each."""
        yield from self.run.remarks
        if self.load is None:
            return
        yield from self.load.notes()
        failures = sum(prediction.failures for prediction in self.predictions)
        if failures:
            yield f"{failures} requests that were answered are not completed in simulation, and not compared"
        compared = int(self.load.compared.sum())
        if compared < FEW:
            yield f"p99 of {compared} requests rests on the slowest {math.ceil(compared / 100)}"
        cached = self.run.cached[self.run.cached > 0].sum()
        if cached:
            yield f"{cached} prompt tokens were found in a prefix cache; the simulation computes them"


@dataclass(frozen=True)
class Validation:
    """Every run against its simulation.

    Attributes:
        deployment: the scenario as it was simulated, with the fitted overhead if there is one.
        checks: one a run, in the order of the files.
        budget: largest errors; None: none was stated and there is no verdict.
        fit: the overhead, None if none was fitted.
        without_fit: the runs that count, simulated without the overhead; empty without a fit.
    """

    deployment: Deployment
    checks: tuple[Check, ...]
    budget: ErrorBudget | None = None
    fit: OverheadFit | None = None
    without_fit: tuple[Check, ...] = ()

    @property
    def inside(self) -> bool | None:
        """Whether every budgeted error is inside; None without a budget."""
        return None if self.budget is None else not any(self.misses())

    def misses(self) -> Iterator[str]:
        """What is not inside the budget, and what a budget is stated for and was never checked."""
        for metric, limit in (self.budget or {}).items():
            held = [
                (check.name, statistic, check.comparisons[metric][statistic].error)
                for check in self.checks
                if check.counts and metric in check.comparisons
                for statistic in HELD
            ]
            if not held:
                yield f"{metric.upper()} is checked in no run that counts"
            for name, statistic, error in held:
                if error is None or abs(error) > limit:
                    found = (
                        "has no error: 0 was measured" if error is None else f"is off by {100 * error:+.3g}%"
                    )
                    yield f"{metric.upper()} {statistic} of {name} {found}"


def validate(
    deployment: Deployment,
    runs: Sequence[BenchmarkRun],
    *,
    fit_on: str | None = None,
    budget: ErrorBudget | None = None,
    jobs: int = 1,
    progress: Progress | None = None,
) -> Validation:
    """Simulate each run on the scenario's fleet and compare.

    Args:
        deployment: the service that was measured.
        runs: of its benchmarks, at least one.
        fit_on: label, name or file of the runs on which overhead is fitted; None: nothing is fitted.
        budget: largest relative error of a metric.
        jobs: processes for the runs that measure saturated rates.
        progress: told of the simulations.

    Raises:
        BadInput: `fit_on` names no run, all of them, or one that overhead cannot be fitted on.
        InvariantBroken: a conservation law does not hold in a simulation.
    """
    progress = progress or Silence()
    checks = [_prepared(name, run) for name, run in zip(names(runs), runs, strict=True)]
    if fit_on is None:
        done = _checked(deployment, checks, jobs, progress)
        return Validation(deployment, tuple(done), budget)
    checks = [replace(check, fitted=_is_named(check, fit_on)) for check in checks]
    fit = fit_overhead(deployment, _to_fit(checks, fit_on), progress)
    fitted = with_overhead(deployment, fit.overhead)
    done = _checked(fitted, checks, jobs, progress)
    held_out = [check for check, after in zip(checks, done, strict=True) if after.counts]
    return Validation(
        fitted, tuple(done), budget, fit, tuple(_compared(deployment, each) for each in held_out)
    )


def names(runs: Sequence[BenchmarkRun]) -> list[str]:
    """A name for each run: its label or its file's name, both where runs share a file; numbered if need be."""
    files = [run.source for run in runs]
    plain = [_name(run, alone=files.count(run.source) == 1) for run in runs]
    seen: dict[str, int] = {}
    unique = []
    for name in plain:
        seen[name] = seen.get(name, 0) + 1
        unique.append(f"{name}#{seen[name]}" if plain.count(name) > 1 else name)
    return unique


def _name(run: BenchmarkRun, alone: bool) -> str:
    stem = Path(run.source).stem
    if alone or not run.label:
        return run.label or stem
    return f"{stem}: {run.label}"


def _is_named(check: Check, wanted: str) -> bool:
    source = Path(check.run.source)
    return wanted in (check.name, check.run.label, source.name, source.stem, check.run.source)


def _to_fit(checks: Sequence[Check], fit_on: str) -> list[BenchmarkLoad]:
    known = ", ".join(check.name for check in checks)
    fitted = [check for check in checks if check.fitted]
    if not fitted:
        raise BadInput(Fault("--fit-on", f"{fit_on!r} is none of the runs", expected=f"one of {known}"))
    if all(check.fitted or check.load is None for check in checks):
        raise BadInput(
            Fault("--fit-on", f"{fit_on!r} leaves no run to be judged on", expected=f"one of {known}")
        )
    faults = [
        Fault("--fit-on", f"{check.name}: {check.unchecked[0]}") for check in fitted if check.load is None
    ]
    if faults:
        raise BadInput(*faults)
    return [check.load for check in fitted if check.load is not None]


def _prepared(name: str, run: BenchmarkRun) -> Check:
    try:
        return Check(name, run, load_of(run))
    except Uncheckable as error:
        return Check(name, run, unchecked=(f"nothing of it: {error.reason}",))


def _checked(deployment: Deployment, checks: Sequence[Check], jobs: int, progress: Progress) -> list[Check]:
    progress.start("validate", len(checks))
    done = []
    for check in checks:
        done.append(_with_overload(deployment, _compared(deployment, check), jobs))
        progress.advance()
    return done


def _compared(deployment: Deployment, check: Check) -> Check:
    if check.load is None:
        return check
    predictions = predict(deployment, check.load)
    measured, simulated = measured_figures(check.load), [each.figures() for each in predictions]
    comparisons = {
        metric: {
            statistic: Comparison(value, tuple(run[metric][statistic] for run in simulated))
            for statistic, value in measured[metric].items()
            if statistic != "std"
        }
        for metric in METRICS
        if metric in measured and all(metric in run for run in simulated)
    }
    unchecked = (
        f"{metric.upper()}: {'not simulated' if metric in measured else 'the file has none'}"
        for metric in LATENCIES
        if metric not in comparisons
    )
    return replace(check, predictions=tuple(predictions), comparisons=comparisons, unchecked=tuple(unchecked))


def _with_overload(deployment: Deployment, check: Check, jobs: int) -> Check:
    """The check with its standing; a closed loop is never overloaded, nor is a fleet that rejects everything."""
    if check.load is None or check.load.rate is None or not check.comparisons:
        return check
    lengths = check.load.requests(deployment.seed(0))
    trace = Trace(
        check.name,
        check.run.source,
        check.run.sha256,
        "",
        lengths.arrival,
        lengths.prompt,
        lengths.output,
        len(lengths),
    )
    same_lengths = replace(deployment, demand=TraceDemand(trace))
    saturated = deployment.scenario.fleet.replicas * fmean(saturated_rates(Runner(same_lengths, jobs)))
    growing = sum(backlog_drift(prediction.log).grows for prediction in check.predictions)
    overloaded = ""
    if check.load.rate >= saturated:
        overloaded = f"offered {check.load.rate:.4g}/s, saturated at {saturated:.4g}/s"
    elif 2 * growing > len(check.predictions):
        overloaded = "the backlog grows"
    return replace(check, saturated_rate=saturated, overloaded=overloaded)
