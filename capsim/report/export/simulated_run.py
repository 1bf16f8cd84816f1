"""A simulation as a benchmark's client would have recorded it: what every export is written from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from capsim import __version__
from capsim.benchmark.definitions import Columns, linear, tpot_with_first
from capsim.benchmark.record import ERROR, INCOMPLETE, OK, BenchmarkRun
from capsim.benchmark.vllm_bench import DEFINITION
from capsim.fleet.log import Outcome, RunLog
from capsim.measure.inter_token import inter_token_gaps
from capsim.measure.latency import failed, user_latencies
from capsim.plan.prediction import listed
from capsim.plan.simulation import Simulation
from capsim.report.export.token_gaps import steps_missed, token_gaps
from capsim.workload.demand import SyntheticDemand

PERCENTILES = (0.1, 1, 5, 10, 25, 50, 75, 90, 95, 99, 99.9)

_STATUS = {
    Outcome.COMPLETED: OK,
    Outcome.REJECTED: ERROR,
    Outcome.LOST: ERROR,
    Outcome.UNFINISHED: INCOMPLETE,
}


@dataclass(frozen=True)
class SimulatedRun:
    """What is exported.

    Attributes:
        run: requests, latencies as the user observes them, and aggregates as ``vllm bench serve`` and
            inference-perf define them, over completed requests. Every request of the run is in it, those of
            the warm-up too, which the summary of a result leaves out.
        scenario: its name.
        fingerprint: of the deployment.
        seed: of the scenario.
        source: where lengths come from, ``sampled`` (a trace) or ``random``.
    """

    run: BenchmarkRun
    scenario: str
    fingerprint: str
    seed: int
    source: str

    @property
    def simulated_by(self) -> str:
        """Program and version, which mark every file as no measurement."""
        return f"{self.run.tool} {self.run.tool_version}"

    @property
    def origin(self) -> dict[str, str]:
        """The marks of a file that has room for several."""
        return {
            "simulated_by": self.simulated_by,
            "scenario": self.scenario,
            "fingerprint": self.fingerprint,
            "seed": str(self.seed),
        }


def simulated_run(simulation: Simulation) -> SimulatedRun:
    """The run as a client would have recorded it.

    Gaps between tokens are those of `token_gaps`, or left out with a remark; ITL is then that of the pooled
    gaps of the whole run, which are known all the same.
    """
    deployment, log = simulation.deployment, simulation.log
    run = replace(
        _requests(log),
        source=deployment.scenario.name,
        label=deployment.scenario.name,
        model=deployment.scenario.model.name,
        request_rate=_rate(simulation),
        concurrency=simulation.experiment.concurrency,
    )
    return SimulatedRun(
        run=replace(run, aggregates=_aggregates(run, log)),
        scenario=deployment.scenario.name,
        fingerprint=deployment.fingerprint,
        seed=deployment.scenario.seed,
        source="random" if isinstance(deployment.demand, SyntheticDemand) else "sampled",
    )


def statistics(values: NDArray[np.float64] | NDArray[np.int64]) -> dict[str, float]:
    """Mean, std, min, max and percentiles (linear, as both tools have them) of at least one value."""
    return {
        "mean": float(values.mean()),
        "std": float(values.std()),
        "min": float(values.min()),
        "max": float(values.max()),
        **{f"p{q:g}": linear(values.astype(np.float64), q) for q in PERCENTILES},
    }


def _rate(simulation: Simulation) -> float | None:
    """Requests/s offered; None in a closed loop, and where a single request is no rate."""
    if simulation.experiment.concurrency is not None:
        return None
    offered: float | None = simulation.sample["throughput"]["offered"]
    return simulation.experiment.rate or offered


def _requests(log: RunLog) -> BenchmarkRun:
    """Requests as columns; a failed one has no latency and no output."""
    requests, user, lost = log.requests, user_latencies(log), failed(log)
    outcomes = [Outcome(outcome) for outcome in requests.outcome.tolist()]
    gaps = token_gaps(log)
    first = requests.arrival.min()
    # The client also waits for the last request that fails, at least until it is sent.
    end = np.where(lost, requests.arrival, requests.arrival + user.e2e).max()
    return BenchmarkRun(
        tool="capsim",
        tool_version=__version__,
        source="",
        sha256="",
        duration=float(end - first),
        arrival=requests.arrival - first,
        ttft=np.where(lost, np.nan, user.ttft),
        e2e=np.where(lost, np.nan, user.e2e),
        prompt=requests.prompt,
        output=np.where(lost, 0, requests.output),
        cached=requests.cached + requests.loaded,
        status=np.array([_STATUS[outcome] for outcome in outcomes], np.int64),
        errors=tuple("" if outcome is Outcome.COMPLETED else outcome.name.lower() for outcome in outcomes),
        gaps=None if gaps is None else gaps.seconds,
        gap_starts=None if gaps is None else gaps.starts,
        failures_visible=True,
        remarks=() if gaps is not None else (_no_gaps(log),),
    )


def _no_gaps(log: RunLog) -> str:
    preempted = int(np.count_nonzero(steps_missed(log)))
    return (
        "gaps between tokens are left out: requests that were preempted between tokens: "
        f"{preempted}, and the log does not tell between which"
    )


def _aggregates(run: BenchmarkRun, log: RunLog) -> Mapping[str, Mapping[str, float]]:
    columns = DEFINITION.counted(run)
    if columns.gaps is None:
        columns = replace(columns, gaps=listed(inter_token_gaps(log.leaps, log.resumed_gaps)))
    ok = run.ok
    return {
        **{metric: statistics(values) for metric, values in _latencies(columns).items() if len(values)},
        **{name: {"mean": rate} for name, rate in DEFINITION.throughput(run).items()},
        "requests": {
            "ok": int(np.count_nonzero(ok)),
            "error": int(np.count_nonzero(run.status == ERROR)),
            "incomplete": int(np.count_nonzero(run.status == INCOMPLETE)),
        },
        "tokens": {"prompt": int(run.prompt[ok].sum()), "output": int(run.output[ok].sum())},
    }


def _latencies(columns: Columns) -> dict[str, NDArray[np.float64]]:
    """Values of each latency, without NaN, of completed requests."""
    return {
        **DEFINITION.metrics(columns),
        "normalized_time_per_output_token": tpot_with_first(columns),
    }
