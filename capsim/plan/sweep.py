"""A scenario at many rates, numbers of clients or settings, each judged as a plan judges a fleet at a rate."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from statistics import fmean

from capsim.catalog.schema import closest
from capsim.errors import BadInput, Fault, Infeasible
from capsim.plan.deployment import Deployment, deploy
from capsim.plan.experiment import Experiment
from capsim.plan.ledger import Ledger
from capsim.plan.point import Point, judge_point
from capsim.plan.progress import Progress
from capsim.plan.runner import Runner
from capsim.plan.saturated_rates import saturated_rates
from capsim.plan.simulation import SETTLE
from capsim.plan.sweep_axis import CONCURRENCY, RATE, Axis, requests_per_second
from capsim.plan.verdict import Verdict, looks
from capsim.scenario import Scenario

Read = Callable[[tuple[str, ...]], Scenario]
"""The scenario with changes such as ``engine.max_num_seqs=128``."""
CLOSED_REQUESTS = 200
"""Least requests of a closed loop, so that few clients give a percentile too."""


@dataclass(frozen=True)
class SweepPoint:
    """One combination of values.

    Attributes:
        values: one an axis.
        deployment: what was simulated; None: it does not fit.
        experiment: its load, of the first replication; None: it does not fit.
        point: over replications; None: it does not fit.
        saturated_rate: requests/s of the fleet that is never idle; None in a closed loop, which cannot be overloaded.
        does_not_fit: the limit that is exceeded, empty if it fits.
    """

    values: tuple[str, ...]
    deployment: Deployment | None = None
    experiment: Experiment | None = None
    point: Point | None = None
    saturated_rate: float | None = None
    does_not_fit: str = ""


@dataclass(frozen=True)
class Sweep:
    """All points, the last axis changing fastest.

    Attributes:
        scenario: without any change.
        axes: what it goes over.
        points: in the order of the axes' values.
        performed: simulations made now; those found finished are not counted.
    """

    scenario: Scenario
    axes: tuple[Axis, ...]
    points: tuple[SweepPoint, ...]
    performed: int


def make_sweep(
    read: Read,
    axes: Sequence[Axis],
    *,
    jobs: int = 1,
    ledger: Ledger | None = None,
    progress: Progress | None = None,
) -> Sweep:
    """Judge the scenario's own fleet at every combination of values; its failures do not happen.

    Args:
        read: gives the scenario with changes.
        axes: what to go over; more than one: each value with each of the others.
        jobs: processes; the result does not depend on it.
        ledger: finished experiments of an earlier, interrupted sweep.
        progress: told of each experiment.

    Raises:
        BadInput: faults of the scenario, of axes that go over one thing twice, and of every value.
        Infeasible: nothing fits.
    """
    _refuse_two_loads(axes)
    scenario = read(())
    ledger = Ledger(None) if ledger is None else ledger
    combinations = list(product(*(axis.values for axis in axes)))
    changes = {values: _changes(axes, values) for values in combinations}
    prepared = _prepare(read, list(dict.fromkeys(changes.values())))
    found: dict[tuple[str, ...], SweepPoint] = {}
    performed = 0
    for change, deployment in prepared.items():
        own = [values for values in combinations if changes[values] == change]
        if isinstance(deployment, Infeasible):
            found |= {values: SweepPoint(values, does_not_fit=deployment.limit) for values in own}
            continue
        runner = Runner(deployment, jobs, ledger, progress)
        loads = {values: _load(deployment, axes, values) for values in own}
        found |= _judge(runner, loads, ", ".join(change) or "sweep")
        performed += runner.performed
    return Sweep(scenario, tuple(axes), tuple(found[values] for values in combinations), performed)


def _refuse_two_loads(axes: Sequence[Axis]) -> None:
    names = [axis.name for axis in axes]
    for name in dict.fromkeys(names):
        if names.count(name) > 1:
            raise BadInput(Fault("--over", f"{name} is gone over twice", expected="each name once"))
    if {RATE, CONCURRENCY} <= set(names):
        what = "a rate and a number of clients are two loads"
        raise BadInput(Fault("--over", what, expected="one of rate and concurrency"))


def _changes(axes: Sequence[Axis], values: tuple[str, ...]) -> tuple[str, ...]:
    """The changes to the scenario of a combination."""
    pairs = zip(axes, values, strict=True)
    return tuple(axis.override(value) for axis, value in pairs if not axis.is_load)


def _prepare(
    read: Read, changes: Sequence[tuple[str, ...]]
) -> dict[tuple[str, ...], Deployment | Infeasible]:
    """Every deployment, before anything is simulated; all faults of all values at once."""
    prepared: dict[tuple[str, ...], Deployment | Infeasible] = {}
    faults: list[Fault | str] = []
    for change in changes:
        outcome = _deployed(read, change)
        if isinstance(outcome, BadInput):
            faults += [_of_over(fault) for fault in outcome.faults]
        else:
            prepared[change] = outcome
    if faults:
        raise BadInput(*dict.fromkeys(faults))
    limits = [outcome for outcome in prepared.values() if isinstance(outcome, Infeasible)]
    if len(limits) == len(prepared):
        raise limits[0]
    return prepared


def _deployed(read: Read, change: tuple[str, ...]) -> Deployment | Infeasible | BadInput:
    try:
        return deploy(read(change))
    except (BadInput, Infeasible) as error:
        return error


def _of_over(fault: Fault | str) -> Fault | str:
    """A fault of a value as one of the flag that stated it; a name that is no key may have meant a load."""
    if not (isinstance(fault, Fault) and fault.source.startswith("--set ")):
        return fault
    name = fault.source.removeprefix("--set ")
    fault = replace(fault, source=f"--over {name}")
    if fault.what != "unknown key" or "." in name:
        return fault
    loads, meant = (RATE, CONCURRENCY), fault.suggestion
    return replace(
        fault, expected=f"{', '.join(loads)} or {fault.expected}", suggestion=closest(name, loads) or meant
    )


def _load(deployment: Deployment, axes: Sequence[Axis], values: tuple[str, ...]) -> Experiment:
    """The load of a combination; without one among the axes, the scenario's target."""
    stated = dict(zip((axis.name for axis in axes), values, strict=True))
    replicas = deployment.scenario.fleet.replicas
    if CONCURRENCY in stated:
        clients = int(stated[CONCURRENCY])
        requests = max(CLOSED_REQUESTS, SETTLE * clients)
        return Experiment("closed", replicas, requests=requests, concurrency=clients)
    rate = requests_per_second(stated[RATE]) if RATE in stated else deployment.target_rate
    return Experiment("resample", replicas, rate, duration=deployment.scenario.plan.duration)


def _judge(
    runner: Runner, loads: dict[tuple[str, ...], Experiment], stage: str
) -> dict[tuple[str, ...], SweepPoint]:
    """Points of one deployment, with as many replications as their verdicts take."""
    deployment = runner.deployment
    closed = any(load.concurrency for load in loads.values())
    saturated = None
    if not closed:
        saturated = fmean(saturated_rates(runner)) * deployment.scenario.fleet.replicas
    points: dict[tuple[str, ...], Point] = {}
    planned = looks(deployment.scenario.plan.replications)
    for replications in planned:
        open_ = [v for v in loads if v not in points or points[v].verdict is Verdict.UNDECIDED]
        experiments = [replace(loads[v], replication=i) for v in open_ for i in range(replications)]
        samples = runner.run(stage, experiments)
        for place, values in enumerate(open_):
            own = samples[place * replications : (place + 1) * replications]
            load, limit = loads[values], math.inf if saturated is None else saturated
            points[values] = judge_point(load.replicas, load.rate, own, len(planned), limit)
    return {
        values: SweepPoint(values, deployment, load, points[values], saturated)
        for values, load in loads.items()
    }
