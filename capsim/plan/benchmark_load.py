"""The load of a benchmark's run, to be offered to a simulated fleet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capsim.benchmark.definitions import Definition
from capsim.benchmark.reader import definition_of
from capsim.benchmark.record import BenchmarkRun
from capsim.errors import BadInput, Fault
from capsim.workload.arrivals import GammaArrivals
from capsim.workload.requests import Requests
from capsim.workload.streams import stream

REPLICATIONS = 5
"""Independent draws of arrivals that the file does not tell."""

ON_DEMAND = "benchmarks save each request on demand (vllm bench serve --save-detailed)"

Rows = NDArray[np.int64]


class Uncheckable(BadInput):
    """A run that cannot be simulated, and what it lacks."""

    def __init__(self, source: str, reason: str) -> None:
        self.reason = reason
        super().__init__(Fault(source, reason))


@dataclass(frozen=True)
class BenchmarkLoad:
    """Requests that a benchmark sent, and how they come to the simulated fleet.

    Attributes:
        run: where they are from.
        kind: ``replayed`` (at the measured times), ``closed`` (`run.concurrency` clients that wait for their answers)
            or ``drawn`` (gamma gaps at `run.request_rate`, independent draws).
        rows: the run's rows that are simulated, in the order in which they are sent, shape (k,).
    """

    run: BenchmarkRun
    kind: str
    rows: Rows

    @property
    def replications(self) -> int:
        """How many simulations it takes."""
        return REPLICATIONS if self.kind == "drawn" else 1

    @property
    def concurrency(self) -> int | None:
        """Clients of a closed loop, None where arrivals do not wait for answers."""
        return self.run.concurrency if self.kind == "closed" else None

    @property
    def burstiness(self) -> float:
        """Shape of the gamma distribution that gaps are drawn from; a Poisson process where the file is silent."""
        return 1.0 if self.run.burstiness is None else self.run.burstiness

    @property
    def rate(self) -> float | None:
        """Requests/s offered: infinite where all arrive at once, None in a closed loop."""
        if self.kind == "closed":
            return None
        if self.kind == "drawn":
            return self.run.request_rate
        span = float(np.ptp(self.run.arrival[self.rows]))
        return (len(self.rows) - 1) / span if span > 0 else float("inf")

    @property
    def definition(self) -> Definition:
        """The tool's metrics."""
        return definition_of(self.run.tool)

    @property
    def compared(self) -> NDArray[np.bool_]:
        """Which of the simulated requests the tool counts, shape (k,)."""
        counted: NDArray[np.bool_] = self.definition.counts(self.run.status)[self.rows]
        return counted

    def requests(self, seed: np.random.SeedSequence) -> Requests:
        """The requests of one simulation; the seed decides drawn arrivals alone."""
        return Requests(self._arrivals(seed), self.run.prompt[self.rows], self.run.output[self.rows])

    def _arrivals(self, seed: np.random.SeedSequence) -> NDArray[np.float64]:
        if self.kind == "replayed":
            sent = self.run.arrival[self.rows]
            since: NDArray[np.float64] = sent - sent[0]
            return since
        if self.kind == "closed" or self.run.request_rate is None:
            return np.zeros(len(self.rows))
        gaps = GammaArrivals(self.burstiness)
        return gaps.first(len(self.rows), self.run.request_rate, stream(seed, "arrivals"))

    def notes(self) -> Iterator[str]:
        """What differs between the measured load and the simulated one, one sentence each."""
        run = self.run
        left_out = len(run) - len(self.rows)
        if left_out:
            yield (
                f"{left_out} of {len(run)} requests were never sent or have no known lengths: they are not simulated, "
                "and what load they were is missing"
            )
        failed = len(self.rows) - int(self.compared.sum())
        if failed:
            yield f"{failed} requests that failed are simulated as load and not compared"
        if self.kind == "drawn":
            shape = (
                "burstiness unknown, taken as 1"
                if run.burstiness is None
                else f"burstiness {run.burstiness:g}"
            )
            yield (
                f"the file tells no arrivals: drawn at {run.request_rate:g} requests/s ({shape}) in {REPLICATIONS} "
                "independent runs; the error is that of their mean"
            )
        if self.kind == "closed":
            yield f"the file tells no arrivals: a closed loop of {run.concurrency} clients is simulated"
        elif run.concurrency is not None:
            yield (
                f"the client kept at most {run.concurrency} requests open; its sending times are replayed or drawn, so "
                "that a slower simulation does not hold it back"
            )


def load_of(run: BenchmarkRun) -> BenchmarkLoad:
    """The load of a run.

    Raises:
        Uncheckable: it has no requests, no lengths, or neither arrivals nor a rate nor a concurrency.
    """
    if not len(run):
        raise Uncheckable(run.source, f"it holds aggregates alone, no requests; {ON_DEMAND}")
    counted = definition_of(run.tool).counts(run.status)
    known = (run.prompt >= 1) & (run.output >= 1)
    if not (known & counted).any():
        raise Uncheckable(run.source, f"it lacks the lengths of prompts and outputs; {ON_DEMAND}")
    sent = ~np.isnan(run.arrival)
    if sent[known & counted].all():
        rows = np.flatnonzero(known & sent)
        return BenchmarkLoad(run, "replayed", rows[np.argsort(run.arrival[rows], kind="stable")])
    if run.request_rate is not None:
        return BenchmarkLoad(run, "drawn", np.flatnonzero(known))
    if run.concurrency is not None:
        return BenchmarkLoad(run, "closed", np.flatnonzero(known))
    raise Uncheckable(
        run.source, "it has neither arrivals nor a rate nor a concurrency, so its load is unknown"
    )
