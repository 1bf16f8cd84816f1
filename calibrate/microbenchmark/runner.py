"""Measures the cases of a plan that a raw file lacks, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from time import monotonic

from calibrate.microbenchmark.bench import Bench, NotPossible, OutOfMemory
from calibrate.microbenchmark.case import CEILING, Case
from calibrate.microbenchmark.machine import SLOWED, SLOWED_CLOCK, Condition
from calibrate.microbenchmark.plan import Plan
from calibrate.microbenchmark.rank import Ceilings
from calibrate.microbenchmark.raw_file import Writer
from calibrate.microbenchmark.row import Row

OUT_OF_MEMORY = "out of memory"
ABOVE_CEILING = "above the ceiling"
MOST_SHARE = 1.25
"""Of the ceilings. A copy reads and writes; a kernel that only reads may be somewhat faster, and a median differs from
another by its spread. What lies further above ran in another dtype, found its inputs in a cache, or did not run."""
CONDITION_EVERY = 20.0  # seconds; nvidia-smi takes a tenth of one


@dataclass
class Outcome:
    """What a run has come to.

    Attributes:
        rows: measured in this run.
        kept: rows that were there before.
        warnings: what the user must know, a sentence each.
    """

    rows: list[Row] = field(default_factory=list)
    kept: tuple[Row, ...] = ()
    warnings: list[str] = field(default_factory=list)

    def failed(self, why: str) -> list[Row]:
        """Rows that failed for this reason."""
        return [row for row in (*self.kept, *self.rows) if row.failed == why]


class Runner:
    """Measures through a bench and writes through a writer.

    Args:
        bench: the device, loaded with the plan.
        plan: what to measure.
        writer: of the raw file, open.
        kept: rows that it holds already.
        report: is told each case before it is measured, with how many are done and how many there are.
        now: seconds of a clock.
    """

    def __init__(
        self,
        bench: Bench,
        plan: Plan,
        writer: Writer,
        kept: Sequence[Row],
        report: Callable[[Case, int, int], None],
        now: Callable[[], float] = monotonic,
    ) -> None:
        self._bench, self._plan, self._writer, self._report, self._now = bench, plan, writer, report, now
        self.outcome = Outcome(kept=tuple(kept))
        self._conditions: list[Condition] = []
        self._told = 0.0

    def run(self) -> Outcome:
        """Measure what is missing; whatever interrupts, all rows so far are in the file."""
        cases = self._plan.cases()
        done = {row.case for row in self.outcome.kept}
        self._note_condition()
        for place, case in enumerate(cases):
            if case in done:
                continue
            self._report(case, place, len(cases))
            row = self._row(case)
            self._writer.row(row)
            self.outcome.rows.append(row)
            if self._now() - self._told > CONDITION_EVERY:
                self._note_condition()
        self._note_condition()
        self.outcome.warnings += [*self._throttling(), *slowing((*self.outcome.kept, *self.outcome.rows))]
        return self.outcome

    def _row(self, case: Case) -> Row:
        """A case's row; a second try where the first was faster than anything can be."""
        row = self._measured(case)
        if row.share is not None and row.share > MOST_SHARE and case.kind != CEILING:
            row = self._measured(case)
            if row.share is not None and row.share > MOST_SHARE:
                return Row(row.case, row.sample, row.share, row.figures, ABOVE_CEILING)
        return row

    def _measured(self, case: Case) -> Row:
        try:
            found = self._bench.measure(case)
        except OutOfMemory:
            return Row(case, failed=OUT_OF_MEMORY)
        except NotPossible as error:
            return Row(case, failed=str(error))
        share = None
        if found.sample is not None and case.kind != CEILING:
            work = self._plan.rank.work(case, self._plan.limits.layers)
            least = self._ceilings().least_seconds(work)
            share = least / found.sample.seconds if least else None
        return Row(case, found.sample, share, found.figures)

    def _ceilings(self) -> Ceilings:
        return ceilings_of((*self.outcome.kept, *self.outcome.rows), self._bench.machine.cache)

    def _note_condition(self) -> None:
        condition = self._bench.condition()
        self._writer.condition(condition)
        self._conditions.append(condition)
        self._told = self._now()

    def _throttling(self) -> list[str]:
        reasons = sorted({reason for each in self._conditions for reason in each.slowdowns})
        clocks = [each.clock for each in self._conditions[1:] if each.clock]
        warnings = []
        if reasons:
            warnings.append(
                f"the GPU's clock was held down by {', '.join(reasons)}: cool it and measure again"
            )
        if clocks and min(clocks) < SLOWED_CLOCK * max(clocks):
            hottest = max((each.temperature or 0 for each in self._conditions), default=0)
            warnings.append(
                f"the GPU's clock fell from {max(clocks):.0f} to {min(clocks):.0f} MHz (at most {hottest:.0f} C): it "
                "was throttled, or idle at the time; lock the clock (nvidia-smi --lock-gpu-clocks) and measure again"
            )
        return warnings


def ceilings_of(rows: Iterable[Row], cache: int) -> Ceilings:
    """The best that any look at a ceiling has found."""
    rates: dict[str, float] = {}
    for row in rows:
        if row.case.kind == CEILING and row.sample is not None:
            rate = row.figure("amount") / row.sample.best
            rates[row.case.name] = max(rate, rates.get(row.case.name, 0.0))
    flops = {name.removeprefix("matrix "): rate for name, rate in rates.items() if name.startswith("matrix ")}
    return Ceilings(rates.get("copy", float("inf")), flops, cache)


def slowing(rows: Iterable[Row]) -> list[str]:
    """How much slower the second look at the ceilings was, where that is more than noise."""
    first: dict[str, Row] = {}
    warnings = []
    for row in rows:
        if row.case.kind != CEILING or row.sample is None:
            continue
        before = first.setdefault(row.case.name, row)
        ratio = row.seconds / before.seconds
        if max(ratio, 1 / ratio) > SLOWED:
            word = "slower" if ratio > 1 else "faster"
            warnings.append(
                f"{row.case.name} was {100 * abs(ratio - 1):.0f} % {word} at the end than at the beginning: the "
                "machine was shared or throttled, and rows measured at different times do not compare"
            )
    return warnings
