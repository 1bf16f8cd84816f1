"""The steps that the quiet runs logged: how much longer they took than the step cost says, and when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from capsim.cost import BatchShape, Line, LinearCost, StepCost
from tests.reference import ReferenceReplica, Work
from tests.truth.http_server import service
from tests.truth.quiet_run import FOLDER, Quiet, Row, rows

WINDOW = 4
"""Seconds."""


@dataclass(frozen=True, eq=False)
class LoggedSteps:
    """Sums over the steps of one run, a row a window and kind of step.

    Speeds are seconds that were logged over seconds by the step cost: 1.1 is a tenth slower. They hold no
    engine model.
    """

    sums: tuple[Row, ...]

    @property
    def speed(self) -> float:
        """Of all steps."""
        return _speed(self.sums)

    @property
    def decode_steps(self) -> float:
        """Of steps without a chunk of a prompt."""
        return self.of_kind(chunks=False)

    @property
    def prompt_steps(self) -> float:
        """Of steps with one."""
        return self.of_kind(chunks=True)

    def of_kind(self, chunks: bool) -> float:
        """Of steps with or without a chunk."""
        return _speed([row for row in self.sums if (row["chunks_in_step"] == "yes") == chunks])

    @property
    def windows(self) -> tuple[float, ...]:
        """Of each window but the last, which the end of the run cuts short."""
        starts = list(dict.fromkeys(row["window_s"] for row in self.sums))[:-1]
        return tuple(_speed([row for row in self.sums if row["window_s"] == start]) for start in starts)

    def at(self, time: float, chunks: bool) -> float:
        """Of the steps of a kind in the window of a time; where it has none, of the kind."""
        start, kind = str(int(time // WINDOW) * WINDOW), "yes" if chunks else "no"
        found = [row for row in self.sums if row["window_s"] == start and row["chunks_in_step"] == kind]
        return _speed(found) if found else self.of_kind(chunks)


@cache
def logged(run: Quiet) -> LoggedSteps:
    """The steps of a run."""
    key = ("config", "run")
    wanted = [run.row[name] for name in key]
    return LoggedSteps(
        tuple(row for row in rows(FOLDER / "steps.csv") if [row[name] for name in key] == wanted)
    )


class DriftingCost(StepCost):
    """The step cost at the speed that a run logged by kind of step and time; its user sets `now`, seconds."""

    source = "measured"

    def __init__(self, cost: StepCost, steps: LoggedSteps) -> None:
        self.description = f"{cost.description}, at the speed of a log"
        self.now = 0.0
        self._cost, self._steps = cost, steps
        self._speed = cache(lambda window, chunks: steps.at(window * WINDOW, chunks))

    def step(self, batch: BatchShape) -> float:
        """Seconds of a step that begins now."""
        return self._cost.step(batch) * float(self._speed(int(self.now // WINDOW), bool(batch.chunks)))

    def line(self, batch: BatchShape) -> Line:
        """One step: when the next one begins is not known here."""
        return Line(self.step(batch), 0.0, 1)


class DriftingReplica(ReferenceReplica):
    """The plain replica on a `DriftingCost`, which it tells the time."""

    def step(self, work: Work, now: float) -> float:
        """Compute the batch; when it ends."""
        assert isinstance(self.cost, DriftingCost)
        self.cost.now = now
        return super().step(work, now)


def _speed(sums: Sequence[Row]) -> float:
    return sum(float(row["seconds"]) for row in sums) / sum(map(_priced, sums))


def _priced(sums: Row) -> float:
    """Seconds of all steps of a kind: the cost is linear, so that sums of what the batches held suffice."""
    cost = service().cost
    assert isinstance(cost, LinearCost)
    weights = {
        "steps": cost.base,
        "prefill_tokens": cost.per_prefill_token,
        "chunks": cost.per_chunk,
        "query_key_pairs": cost.per_query_key_pair,
        "decodes": cost.per_decode,
        "context": cost.per_context_token,
    }
    return sum(weight * float(sums[name]) for name, weight in weights.items())
