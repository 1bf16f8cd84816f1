"""One line of a raw file: a case and what became of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from calibrate.microbenchmark.case import Case
from calibrate.microbenchmark.sample import Sample

DIGITS = 6  # significant digits of a figure, as in a profile


@dataclass(frozen=True)
class Row:
    """What was measured of a case.

    Attributes:
        case: what it is.
        sample: seconds of one call; None where it has none, as memory.
        share: of what the ceilings allow, 1 at the ceiling; None where they do not bound it.
        figures: what else was found, by name: bytes, layers, first and further tokens.
        failed: why there is nothing, e.g. ``out of memory``; empty where there is something.
        line: of the file, from 1; 0 where it is new.
    """

    case: Case
    sample: Sample | None = None
    share: float | None = None
    figures: Mapping[str, float] | None = None
    failed: str = ""
    line: int = 0

    @property
    def seconds(self) -> float:
        """Median seconds of one call."""
        if self.sample is None:
            raise TypeError(f"{self.case} has no seconds")
        return self.sample.seconds

    def figure(self, name: str) -> float:
        """A figure beside the seconds."""
        return (self.figures or {})[name]

    def members(self) -> dict[str, Any]:
        """For JSON."""
        members = self.case.members()
        if self.sample is not None:
            for name, value in vars(self.sample).items():
                members[name] = float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value
        if self.share is not None:
            members["share"] = float(f"{self.share:.4g}")
        members |= {name: float(f"{value:.{12}g}") for name, value in (self.figures or {}).items()}
        if self.failed:
            members["failed"] = self.failed
        return members

    @classmethod
    def of(cls, members: Mapping[str, Any], line: int) -> Row:
        """From the members.

        Raises:
            KeyError, TypeError, ValueError: they are those of no row.
        """
        case = Case.of(members)
        sample = None
        if "seconds" in members:
            sample = Sample(
                float(members["seconds"]),
                float(members["spread"]),
                int(members["repeats"]),
                float(members["best"]),
            )
            if not sample.seconds > 0:
                raise ValueError(f"seconds {sample.seconds!r}")
        known = {"kind", "name", "shape", "round", "seconds", "spread", "repeats", "best", "share", "failed"}
        figures = {name: float(value) for name, value in members.items() if name not in known}
        share = members.get("share")
        return cls(case, sample, share, figures or None, str(members.get("failed", "")), line)
