"""A device whose seconds follow a law, for everything that needs no torch."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from calibrate.microbenchmark import sample
from calibrate.microbenchmark.bench import Measured
from calibrate.microbenchmark.case import CEILING, MEMORY, REQUEST, STEP, Case
from calibrate.microbenchmark.limits import Limits
from calibrate.microbenchmark.machine import Condition, Machine
from calibrate.microbenchmark.plan import Plan
from calibrate.microbenchmark.rank import Ceilings, Rank
from calibrate.microbenchmark.run import Run
from calibrate.microbenchmark.sample import Sample, Timing
from capsim.catalog import load_model

TINY = Path(__file__).with_name("tiny-llama.yaml")
RANK = Rank(load_model(str(TINY)), 1, "bfloat16")
SMALL = Rank(replace(RANK.model, layers=2, hidden_size=128, intermediate_size=256), 1, "bfloat16")
LIMITS = Limits(256, 32, 1024, kv_tokens=20_000, layers=6, graphs=False)
BANDWIDTH, FLOPS, LAUNCH, GAP = 1e10, 1e11, 2e-6, 5e-6
SLOWER = 1.5
"""Times what the ceilings allow."""


@dataclass
class FakeBench:
    """Every case takes `SLOWER` times the least that it can, and a launch.

    Attributes:
        fails: raises for a case, or does nothing.
        scales: a factor of a case's seconds.
        spread: of the repeats of each call.
        conditions: how the device feels, one look after the other; the last one stays.
        graphs: it calls itself a GPU.
    """

    fails: Callable[[Case], None] = lambda _: None
    scales: Callable[[Case], float] = lambda _: 1.0
    spread: float = 0.01
    conditions: list[Condition] = field(default_factory=lambda: [Condition()])
    graphs: bool = False
    name: str = "a law"
    measured: list[Case] = field(default_factory=list)
    timing: Timing = sample.CPU

    @property
    def machine(self) -> Machine:
        return Machine("cuda" if self.graphs else "cpu", self.name, 1 << 34, 0, 1, "", "2.13.0", 1)

    def condition(self) -> Condition:
        return self.conditions.pop(0) if len(self.conditions) > 1 else self.conditions[0]

    def ceilings(self, dtypes: tuple[str, ...]) -> Ceilings:
        return Ceilings(BANDWIDTH, dict.fromkeys(dtypes, FLOPS))

    def load(self, plan: Plan) -> None:
        self.plan = plan

    def measure(self, case: Case) -> Measured:
        self.fails(case)
        self.measured.append(case)
        if case.kind == MEMORY:
            return Measured(figures={"bytes": 1 << 20})
        if case.kind == CEILING:
            rate = BANDWIDTH if case.name == "copy" else FLOPS
            seconds = 1e9 / rate * self.scales(case)
            return Measured(Sample(seconds, 0.0, 5, seconds), {"amount": 1e9})
        if case.kind == REQUEST:
            return Measured(figures={"ttft": self.seconds(case), "tpot": 1e-3, "layers": 6})
        seconds = self.seconds(case) * self.scales(case)
        return Measured(Sample(seconds, self.spread, 5, seconds))

    def seconds(self, case: Case) -> float:
        """A step is the sum of its parts, and a gap a layer; with graphs its tokens are padded."""
        rank, layers = self.plan.rank, self.plan.limits.layers
        if case.kind in (STEP, REQUEST):
            batch = case.shape
            sizes = self.plan.limits.graph_sizes
            tokens = next((size for size in sizes if size >= batch.tokens), batch.tokens)
            parts = [
                kind.times
                * self.kernel(
                    Case("operator", kind.name, tokens if kind.per == "tokens" else batch.sequences)
                )
                for kind in rank.operators(layers)
            ]
            chunks = sum(
                self.kernel(Case("attention", "", batch=type(batch)((chunk,)))) for chunk in batch.chunks
            )
            decodes = type(batch)(contexts=batch.contexts)
            attention = chunks + (self.kernel(Case("attention", "", batch=decodes)) if batch.contexts else 0)
            return sum(parts) + layers * (attention + GAP)
        return self.kernel(case)

    def kernel(self, case: Case) -> float:
        work = self.plan.rank.work(case, self.plan.limits.layers)
        return LAUNCH + SLOWER * Ceilings(BANDWIDTH, {"bfloat16": FLOPS}).least_seconds(work)


def run_of(bench: FakeBench, out: Path, minutes: float = 10.0, limits: Limits = LIMITS) -> Run:
    return Run.of(bench, RANK, str(TINY), limits, minutes, out)


def main(arguments: Sequence[str]) -> None:
    """A run that takes its time, to be killed: ``python -m tests.calibrate.microbenchmark.fake_bench RAW SECONDS``."""
    out, pause = Path(arguments[0]), float(arguments[1])
    run_of(FakeBench(fails=lambda _: time.sleep(pause)), out, minutes=0.01).measure()


if __name__ == "__main__":
    main(sys.argv[1:])
