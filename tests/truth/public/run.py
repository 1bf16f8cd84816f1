"""Simulations of the published runs: each once as told, and once more where something was assumed that could differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from joblib import Parallel, delayed

from capsim.cost.step import StepCost
from capsim.engine import EngineConfiguration
from capsim.fleet import FleetConfiguration, RunLog
from capsim.fleet.simulation import simulate
from capsim.measure.conservation import check_conservation
from capsim.measure.latency import user_latencies
from capsim.workload.requests import Requests
from tests.truth.public.engine import engine_of
from tests.truth.public.lengths import Lengths
from tests.truth.public.load import Load, load_of, requests_of, told_lengths
from tests.truth.public.refusal import Refused
from tests.truth.public.rows import Measured, Row
from tests.truth.public.service import Hardware, hardware_of, refuse_unmodelled, step_cost

EQUAL = "ShareGPT's prompts, and its answers, all as long as their means"
NARROW = "TensorRT-LLM's KV pool as of fp8, where the row does not tell"


@dataclass(frozen=True)
class Run:
    """A published run made ready to simulate.

    Attributes:
        row: of the file.
        hardware: model, GPUs, precisions.
        engine: limits of a replica.
        load: how requests come.
        lengths: as told; None: recorded.
        requests: of the simulation.
        cost: of a step of a replica.
    """

    row: Row
    hardware: Hardware
    engine: EngineConfiguration
    load: Load
    lengths: Lengths | None
    requests: Requests
    cost: StepCost

    @classmethod
    def of(cls, row: Row) -> Run:
        """Prepare a row.

        Raises:
            Refused: it is not simulated, and why.
        """
        refuse_unmodelled(row)
        load, lengths = load_of(row), told_lengths(row)
        hardware = hardware_of(row)
        requests = requests_of(row, load, lengths)
        longest = int((requests.prompt + requests.output).max())
        engine = engine_of(row, hardware, load, longest)
        return cls(row, hardware, engine, load, lengths, requests, step_cost(hardware))

    def varied(self) -> tuple[str, Run] | None:
        """The assumption that could be another one, in words, and the run with that; None: there is none to try."""
        if self.lengths is not None and self.lengths.spread:
            fixed = self.lengths.fixed()
            return EQUAL, replace(self, lengths=fixed, requests=requests_of(self.row, self.load, fixed))
        if self.row.engine == "TensorRT-LLM" and self.hardware.weights == "fp8" and not self.row["kv_dtype"]:
            hardware = replace(self.hardware, kv="fp8")
            longest = int((self.requests.prompt + self.requests.output).max())
            engine = engine_of(self.row, hardware, self.load, longest)
            return NARROW, replace(self, hardware=hardware, engine=engine)
        return None

    def log(self) -> RunLog:
        """Simulate it."""
        fleet = FleetConfiguration(self.hardware.replicas)
        log = simulate(self.requests, fleet, self.engine, self.cost, concurrency=self.load.clients)
        check_conservation(log)
        return log

    def simulated(self) -> Measured:
        """Simulate it, and what its client would have printed.

        Raises:
            AssertionError: a request that never ran.
        """
        log = self.log()
        user = user_latencies(log)
        if not np.isfinite(user.e2e).all():
            raise AssertionError(f"{self.row.name}: {np.isinf(user.e2e).sum()} requests never ran")
        seconds = float((log.requests.arrival + user.e2e).max() - log.requests.arrival.min())
        several = log.requests.output > 1
        return Measured(
            tokens=float(log.requests.output.sum()) / seconds,
            requests=len(user.e2e) / seconds,
            tpot=float(user.tpot[several].mean()) if several.any() else None,
            ttft=float(user.ttft.mean()),
            e2e=float(user.e2e.mean()),
        )


@dataclass(frozen=True)
class Result:
    """What became of a row.

    Attributes:
        row: of the file.
        run: that was simulated; None: it was refused.
        found: what the simulation shows; None likewise.
        variant: another assumption, in words; empty: none was tried.
        varied: what the simulation shows with it; None likewise.
        refused: why; None: it was simulated.
    """

    row: Row
    run: Run | None = None
    found: Measured | None = None
    variant: str = ""
    varied: Measured | None = None
    refused: Refused | None = None

    def errors(self, found: Measured | None = None) -> dict[str, float]:
        """Signed errors, (simulated - measured) / measured, of what was measured.

        Args:
            found: another simulation of the row; None: the one as told.
        """
        found, real = found or self.found, self.row.measured()
        pairs = {
            "throughput": "tokens" if real.tokens else "requests",
            "TPOT": "tpot",
            "TTFT": "ttft",
            "E2E": "e2e",
        }
        told = ((metric, getattr(found, name, None), getattr(real, name)) for metric, name in pairs.items())
        return {
            metric: simulated / measured - 1
            for metric, simulated, measured in told
            if measured is not None and simulated is not None
        }


def result_of(row: Row) -> Result:
    """Simulate a row, or say why not."""
    try:
        run = Run.of(row)
    except Refused as error:
        return Result(row, refused=error)
    words, other = run.varied() or ("", None)
    return Result(row, run, run.simulated(), words, other.simulated() if other else None)


def results(rows: Sequence[Row], jobs: int) -> list[Result]:
    """Simulate rows, several at a time; the order and every figure are the same for any number of jobs."""
    found: list[Result] = Parallel(n_jobs=jobs, batch_size=1)(delayed(result_of)(row) for row in rows)
    return found
