from __future__ import annotations

from dataclasses import dataclass, field

from calibrate.provenance import SourceFile
from calibrate.step_fit import MeasuredStep

UNITS = ("nanoseconds", "microseconds", "milliseconds", "seconds")


@dataclass(frozen=True)
class StepSource:
    """Steps of one source, and what it is.

    Attributes:
        file: as messages name it.
        files: what was read.
        importer: its name.
        engine: whose steps they are, where the user does not say.
        tool: what measured, for the attribution.
        unit: of the source's times, one of `UNITS`.
        steps: what was measured.
        holds_host: the seconds include the time in which the GPU waits for the CPU.
        holds_logits: the seconds include output projection and sampling.
        notes: what else the reader of the profile must know.
        live: the engine served while it was measured, so that steps of one shape differ: the tables hold a fit with
            few parameters, and no measured step itself.
    """

    file: str
    files: tuple[SourceFile, ...]
    importer: str
    engine: str
    tool: str
    unit: str
    steps: tuple[MeasuredStep, ...]
    holds_host: bool
    holds_logits: bool
    notes: tuple[str, ...] = field(default=())
    live: bool = False
