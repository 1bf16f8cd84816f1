"""What a run asks of a device; `torch_bench` answers with torch, tests with a device of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from calibrate.microbenchmark.case import Case
from calibrate.microbenchmark.machine import Condition, Machine
from calibrate.microbenchmark.plan import Plan
from calibrate.microbenchmark.rank import Ceilings
from calibrate.microbenchmark.sample import Sample, Timing


class OutOfMemory(Exception):
    """A case does not fit the device's memory; what is in memory already is whole."""


class NotPossible(Exception):
    """A case cannot be measured on this device; the message says why."""


@dataclass(frozen=True)
class Measured:
    """What a case gave.

    Attributes:
        sample: seconds of one call, or None.
        figures: what else was found, by name.
    """

    sample: Sample | None = None
    figures: Mapping[str, float] | None = None


class Bench(Protocol):
    """A device that measures cases."""

    @property
    def machine(self) -> Machine:
        """What it is."""

    @property
    def timing(self) -> Timing:
        """How it times."""

    def condition(self) -> Condition:
        """How it feels now."""

    def ceilings(self, dtypes: tuple[str, ...]) -> Ceilings:
        """A first look at what it does at best, for the estimate of a plan."""

    def load(self, plan: Plan) -> None:
        """Put weights and KV cache of a plan into memory.

        Raises:
            OutOfMemory: they do not fit.
        """

    def measure(self, case: Case) -> Measured:
        """Measure a case.

        Raises:
            OutOfMemory: it does not fit; the next case can be measured.
            NotPossible: this device has no such thing.
        """
