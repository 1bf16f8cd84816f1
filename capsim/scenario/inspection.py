from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from capsim.documents import Document, KeyPath
from capsim.errors import Fault
from capsim.scenario.file import ScenarioSection


@dataclass(frozen=True)
class Inspection:
    """The sound part of a scenario file, and the faults that are found in it.

    Attributes:
        section: the file without its faulty values.
        document: the file, for the places of faults.
        left_out: paths of the faulty values; a check that needs one of them says nothing, since the value it would
            look at is a default.
        faults: each fault found is appended here.
    """

    section: ScenarioSection
    document: Document
    left_out: frozenset[KeyPath]
    faults: list[Fault]

    def sound(self, *paths: KeyPath) -> bool:
        """Whether nothing on, in or around these paths was left out."""
        return not any(
            out[: len(path)] == path or path[: len(out)] == out for path in paths for out in self.left_out
        )

    def report(
        self, path: KeyPath, what: str, expected: str = "", suggestion: str = "", *, of_key: bool = False
    ) -> None:
        """Note a fault at a value, or at its key."""
        self.faults.append(self.document.fault(path, what, expected, suggestion, of_key=of_key))

    def folder(self, key: KeyPath) -> Path:
        """Where a relative path starts: beside the file that states it."""
        return Path(self.document.origin(key)).resolve().parent
