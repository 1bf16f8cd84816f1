"""How much of its plan a raw file holds."""

from __future__ import annotations

from dataclasses import dataclass

from calibrate.microbenchmark.plan import Plan
from calibrate.microbenchmark.raw_file import Raw
from capsim.errors import Fault


@dataclass(frozen=True)
class Coverage:
    """Cases of a plan that have a row, and all of them; a row that says why there is no figure counts."""

    measured: int
    planned: int

    @classmethod
    def of(cls, raw: Raw, plan: Plan) -> Coverage:
        """Of a file."""
        cases, done = plan.cases(), raw.done
        return cls(sum(case in done for case in cases), len(cases))

    @property
    def whole(self) -> bool:
        """Whether nothing is missing."""
        return self.measured == self.planned

    def warnings(self) -> list[str]:
        """For a profile of what is there."""
        if self.whole:
            return []
        missing = self.planned - self.measured
        return [f"{missing} of {self.planned} cases were not measured: continue the run for a better fit"]

    def fault(self, source: str) -> Fault:
        """Where no profile can be made of what is there."""
        what = f"{self.measured} of {self.planned} cases are measured, too few for a profile"
        return Fault(source, what, "", "all of them: the same `capsim calibrate run` continues the file")
