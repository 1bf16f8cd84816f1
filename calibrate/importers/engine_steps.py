"""Steps that an engine logged, see `calibrate.engine_steps`: ``capsim calibrate engine`` writes them.

Decodes that repeat one batch while its contexts grow become one step each: the median of their seconds at their mean
context. That keeps a single slow step out of the tables.

Of steps with chunks of the same lengths the first counts alone. A live engine hardly ever sees a number of tokens twice
in such steps, and the first step of a shape takes longer than its repetitions.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from calibrate.draft import Draft
from calibrate.engine_steps import EngineHeader, EngineStep, EngineSteps
from calibrate.engine_steps import read as read_steps
from calibrate.importers import ImportRequest
from calibrate.importers.step_source import StepSource
from calibrate.importers.steps import draft_of
from calibrate.step_fit import MeasuredStep
from capsim.errors import BadInput, Fault

CONTEXT_RATIO = 1.2
"""Contexts of one batch that are nearer than this ratio count as one: attention is a small part of a step, and
piecewise linear in the context."""


def read(path: Path, request: ImportRequest) -> Draft:
    """The draft of a file of steps.

    Raises:
        BadInput: see `calibrate.engine_steps.read` and `draft`.
    """
    return draft(read_steps(path), request)


def draft(logged: EngineSteps, request: ImportRequest) -> Draft:
    """The draft of steps that were read.

    Raises:
        BadInput: they are of another model, engine or version than the request names, or do not suffice for a profile.
    """
    _check(logged, request)
    return draft_of(_source(logged, pooled(logged.steps)), _completed(request, logged.header))


def measured(path: Path) -> StepSource:
    """The steps of a file, each as it was logged.

    Raises:
        BadInput: see `calibrate.engine_steps.read`.
    """
    logged = read_steps(path)
    return _source(logged, [MeasuredStep(step.batch, step.seconds) for step in logged.steps])


def pooled(steps: Iterable[EngineStep]) -> list[MeasuredStep]:
    """One step for those of equal chunks and number of decodes; without chunks, of contexts near each other."""
    groups: dict[object, list[EngineStep]] = {}
    for step in steps:
        chunks, decodes, context = step.batch[:3]
        near = 0 if chunks else round(math.log(context / decodes, CONTEXT_RATIO))
        groups.setdefault((tuple(sorted(chunks)), decodes, near), []).append(step)
    return [_first(group) if group[0].batch.chunks else _median(group) for group in groups.values()]


def _first(group: list[EngineStep]) -> MeasuredStep:
    return MeasuredStep(group[0].batch, group[0].seconds, noisy=True)


def _median(group: list[EngineStep]) -> MeasuredStep:
    """Median seconds at the mean context."""

    def mean(name: str) -> int:
        return round(statistics.fmean(getattr(step.batch, name) for step in group))

    batch = group[0].batch._replace(
        context=mean("context"),
        squared_context=mean("squared_context"),
        largest_context=mean("largest_context"),
    )
    seconds = statistics.median(step.seconds for step in group)
    return MeasuredStep(batch, seconds, noisy=len(group) == 1)


def _check(logged: EngineSteps, request: ImportRequest) -> None:
    header = logged.header
    file = logged.files[-1].name
    faults = []
    stated = {"engine": request.engine, "version": request.engine_version}
    for name, wanted in stated.items():
        found = getattr(header, name)
        if wanted is not None and found != wanted and found != getattr(EngineHeader(), name):
            faults.append(Fault(file, found, name, wanted))
    for name, size in header.shapes.items():
        asked = getattr(request.model, name, size)
        if size != asked:
            faults.append(Fault(file, f"{size}", f"shapes.{name}", f"{asked} of {request.model.name}"))
    if faults:
        raise BadInput(*faults)


def _completed(request: ImportRequest, header: EngineHeader) -> ImportRequest:
    """The request with what the file says of itself, where the user does not."""
    options = {"gpu_name": header.device, "date": header.date, **request.options}
    version = request.engine_version or header.version
    return replace(request, engine_version=version, options=options)


def _source(logged: EngineSteps, steps: list[MeasuredStep]) -> StepSource:
    notes = [f"{len(logged.steps)} steps were logged; steps of one batch count once, by their median."]
    settings = ", ".join(f"{name} {value}" for name, value in logged.header.settings.items())
    if settings:
        notes.append(f"The engine ran with {settings}.")
    guessed = sum(not step.chunks_known for step in logged.steps)
    if guessed:
        notes.append(
            f"In {guessed} steps the sums over several chunks are known alone: they are taken to be equally long."
        )
    return StepSource(
        file=logged.source,
        files=logged.files,
        importer="engine-steps",
        engine=logged.header.engine,
        tool="capsim calibrate engine",
        unit="seconds",
        steps=tuple(steps),
        holds_host=True,
        holds_logits=True,
        notes=tuple(notes),
        live=True,
    )
