"""What the parts of logged steps take."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable

from calibrate.columns import columns, milliseconds
from calibrate.engine_steps import EngineStep

_KINDS: dict[str, Callable[[EngineStep], bool]] = {
    "decodes alone": lambda step: not step.batch.chunks,
    "with prompts": lambda step: bool(step.batch.chunks),
}
_PARTS: dict[str, Callable[[EngineStep], float | None]] = {
    "whole": lambda step: step.seconds,
    "schedule": lambda step: step.schedule,
    "execute": lambda step: step.execute,
    "sample": lambda step: step.sample,
    "rest": lambda step: None if step.host is None else step.host - step.schedule,
}
"""Parts of a step; ``rest``: messages between the engine's processes, and bookkeeping."""
Parts = dict[str, dict[str, float | None]]


def parts_of(steps: Iterable[EngineStep]) -> Parts:
    """Median seconds of each part, by kind of step; None where no step tells, no entry where no step is of a kind."""
    steps = list(steps)
    found: Parts = {}
    for kind, belongs in _KINDS.items():
        of_kind = [step for step in steps if belongs(step)]
        if of_kind:
            found[kind] = {
                "steps": len(of_kind),
                **{name: _median(part, of_kind) for name, part in _PARTS.items()},
            }
    return found


def parts_text(parts: Parts) -> list[str]:
    """Lines of a table, milliseconds."""
    rows = [
        (kind, f"{medians['steps']:,.0f}", *(milliseconds(medians[name]) for name in _PARTS))
        for kind, medians in parts.items()
    ]
    return columns(("medians, ms", "steps", *_PARTS), "lr" + "r" * len(_PARTS), rows)


def _median(part: Callable[[EngineStep], float | None], steps: Iterable[EngineStep]) -> float | None:
    known = [seconds for step in steps if (seconds := part(step)) is not None]
    return statistics.median(known) if known else None
