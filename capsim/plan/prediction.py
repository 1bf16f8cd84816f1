"""What the simulator says of a benchmark's run, in the benchmark's own metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from capsim.benchmark.definitions import Columns
from capsim.benchmark.record import ERROR, UNKNOWN, BenchmarkRun
from capsim.fleet.log import RunLog
from capsim.fleet.simulation import simulate
from capsim.measure.conservation import check_conservation
from capsim.measure.inter_token import Gaps, inter_token_gaps
from capsim.measure.latency import failed, user_latencies
from capsim.plan.benchmark_load import BenchmarkLoad
from capsim.plan.deployment import Deployment

PERCENTILES = (50, 90, 95, 99)
METRICS = ("ttft", "tpot", "itl", "e2e", "request_throughput", "output_throughput")

MOST_GAPS = 1_000_000
"""Gaps of a run that are listed one by one; of more, so many evenly spaced ranks: a rank is off by 1e-6 at most."""

Floats = NDArray[np.float64]
Figures = Mapping[str, Mapping[str, float]]
"""Metric, then statistic: seconds, or a rate per second."""


@dataclass(frozen=True)
class Prediction:
    """One simulation of a benchmark's load, seen from the client.

    Attributes:
        load: what was simulated.
        log: all that was recorded.
    """

    load: BenchmarkLoad
    log: RunLog

    @property
    def compared(self) -> NDArray[np.bool_]:
        """Requests that are counted and were completed here too, shape (k,)."""
        return self.load.compared & ~failed(self.log)

    @property
    def failures(self) -> int:
        """Counted requests that the simulated fleet did not complete."""
        return int((self.load.compared & failed(self.log)).sum())

    def columns(self) -> Columns:
        """What the tool's metrics are computed from, of the compared requests; gaps are those of all requests."""
        user, rows = user_latencies(self.log).only(self.compared), self.compared
        gaps = inter_token_gaps(self.log.leaps, self.log.resumed_gaps)
        return Columns(user.ttft, user.e2e, self.log.requests.output[rows], listed(gaps))

    @property
    def duration(self) -> float:
        """Seconds from the first submission to the last token at a client; NaN without a completed request."""
        ends = (self.log.requests.arrival + user_latencies(self.log).e2e)[~failed(self.log)]
        return float(ends.max() - self.log.requests.arrival.min()) if len(ends) else float("nan")

    def figures(self) -> dict[str, Mapping[str, float]]:
        """The tool's metrics of this run."""
        definition = self.load.definition
        return _with_rates(
            definition.summary(self.columns(), PERCENTILES), definition.throughput(self._as_run())
        )

    def _as_run(self) -> BenchmarkRun:
        """The simulation as the tool would have recorded it, for rates."""
        requests, user = self.log.requests, user_latencies(self.log)
        status = np.where(failed(self.log), ERROR, self.load.run.status[self.load.rows])
        return BenchmarkRun(
            tool=self.load.run.tool,
            source="simulated",
            sha256="",
            duration=self.duration,
            arrival=requests.arrival,
            ttft=user.ttft,
            e2e=user.e2e,
            prompt=requests.prompt,
            output=requests.output,
            cached=np.full(len(status), UNKNOWN, dtype=np.int64),
            status=status,
            errors=("",) * len(status),
        )


def predict(deployment: Deployment, load: BenchmarkLoad) -> list[Prediction]:
    """Simulate a load, once or in as many replications as it takes; the scenario's failures do not happen.

    Raises:
        InvariantBroken: a conservation law does not hold.
    """
    fleet = replace(deployment.scenario.fleet, failures=())
    predictions = []
    for replication in range(load.replications):
        requests = load.requests(deployment.seed(replication))
        log = simulate(requests, fleet, deployment.engine, deployment.cost, concurrency=load.concurrency)
        check_conservation(log)
        predictions.append(Prediction(load, log))
    return predictions


def measured_columns(load: BenchmarkLoad) -> Columns:
    """What the tool measured of the compared requests."""
    run, rows = load.run, load.rows[load.compared]
    gaps = None
    if run.gaps is not None and run.gap_starts is not None:
        kept = np.isin(np.arange(len(run)), rows)
        gaps = run.gaps[np.repeat(kept, np.diff(run.gap_starts))]
    return Columns(run.ttft[rows], run.e2e[rows], run.output[rows], gaps)


def measured_figures(load: BenchmarkLoad) -> dict[str, Mapping[str, float]]:
    """The tool's metrics of the measured run, over the compared requests."""
    definition = load.definition
    return _with_rates(
        definition.summary(measured_columns(load), PERCENTILES), definition.throughput(load.run)
    )


def _with_rates(
    latencies: Mapping[str, Mapping[str, float]], rates: Mapping[str, float]
) -> dict[str, Mapping[str, float]]:
    return {**latencies, **{name: {"mean": rate} for name, rate in rates.items() if name in METRICS}}


def listed(gaps: Gaps, most: int = MOST_GAPS) -> Floats:
    """Gaps one by one, shape (n,); of more than `most`, the gaps at as many evenly spaced ranks."""
    if gaps.total <= most:
        return np.repeat(gaps.seconds, gaps.count)
    order = np.argsort(gaps.seconds)
    ranks = (np.arange(most) + 0.5) * (gaps.total / most)
    found: Floats = gaps.seconds[order][np.searchsorted(np.cumsum(gaps.count[order]), ranks)]
    return found
