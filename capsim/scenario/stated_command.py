"""`engine.args`: the keys that a command line settles, put where the scenario states the others."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from capsim.catalog.loader import known_model
from capsim.catalog.schema import shown
from capsim.documents import Document, KeyPath
from capsim.errors import Fault
from capsim.scenario.command_line import CommandLine
from capsim.scenario.composed import Composition
from capsim.scenario.serve_command import StatedFlag, read_command
from capsim.scenario.serve_settings import serve_settings
from capsim.units import UnitError, parse_share

ARGS: KeyPath = ("engine", "args")
MODEL: KeyPath = ("model",)


@dataclass(frozen=True)
class StatedCommand:
    """A scenario with what its command line says.

    Attributes:
        document: with the keys that the command line settles.
        command: what was understood.
    """

    document: Document
    command: CommandLine


def stated_command(composition: Composition, faults: list[Fault]) -> StatedCommand | None:
    """Read `engine.args`, if the scenario has it.

    A key beside it must not say anything else, unless it stands in a file that extends the one with the command line,
    or was given with the command: then it wins.

    Args:
        composition: the scenario as its files and overrides state it.
        faults: what cannot be read, is refused or contradicts a key is appended here.
    """
    document = composition.document
    engine = document.data.get("engine")
    text = engine.get("args") if isinstance(engine, dict) else None
    if not isinstance(engine, dict) or not isinstance(text, str):
        return None
    command = read_command(text)
    meant = serve_settings(command, engine)
    faults.extend(
        document.fault(ARGS, problem.what, problem.expected, problem.suggestion) for problem in meant.problems
    )
    settled: dict[KeyPath, Any] = {}
    for key, (flag, value) in meant.keys.items():
        if _holds(composition, key, flag, value, engine, faults):
            settled["engine", key] = value
    notes = _model(composition, command.model, settled, faults)
    return StatedCommand(
        _with_values(document, settled),
        CommandLine(
            model=command.model,
            settled={key: value for key, (_, value) in meant.keys.items()},
            ignored=tuple(flag.name for flag in meant.ignored),
            not_modelled=tuple((str(flag), flag.flag.reason or OTHER_MEDIA) for flag in meant.not_modelled),
            record=shlex.join(word for flag in meant.not_modelled for word in flag.words),
            notes=notes,
        ),
    )


OTHER_MEDIA = "prompts with video or sound"


def _holds(
    composition: Composition,
    key: str,
    flag: StatedFlag,
    value: Any,
    engine: Mapping[str, Any],
    faults: list[Fault],
) -> bool:
    """Whether the command line settles a key: nothing that wins over it says something else."""
    path: KeyPath = ("engine", key)
    if engine.get(key) is None:
        return True
    beside, own = composition.rank(path), composition.rank(ARGS)
    if beside == own and not _same(engine[key], value):
        what = f"{shown(engine[key])} is not what the command line says: {flag}"
        faults.append(composition.document.fault(path, what, "one of them"))
    return beside < own


def _same(stated: Any, value: Any) -> bool:
    """Whether a key and a flag say the same; a share may be written as percent."""
    if stated == value:
        return True
    try:
        return isinstance(value, float) and parse_share(stated) == value
    except UnitError:
        return False


def _model(
    composition: Composition, tag: str, settled: dict[KeyPath, Any], faults: list[Fault]
) -> tuple[str, ...]:
    """The model of a scenario that names none; and whether the command line serves another."""
    stated = composition.document.data.get("model")
    if not tag:
        return ()
    if stated is None:
        settled[MODEL] = tag
        return ()
    if not isinstance(stated, str) or composition.rank(MODEL) > composition.rank(ARGS):
        return ()
    served, planned = known_model(tag), known_model(stated)
    if not served:
        return (f"{shown(tag)} of the command line is not in the catalog, and is planned as {stated}",)
    if planned and served != planned:
        what = f"the command line serves {tag}, and the scenario's model is {stated}"
        faults.append(composition.document.fault(ARGS, what, "one model"))
    return ()


def _with_values(document: Document, settled: Mapping[KeyPath, Any]) -> Document:
    """The document with further values, whose place is that of the command line."""
    data: dict[str, Any] = {**document.data, "engine": dict(document.data["engine"])}
    for path, value in settled.items():
        (data["engine"] if len(path) > 1 else data)[str(path[-1])] = value
    place, source = document.place(ARGS), document.origin(ARGS)
    overridden = next((name for path, name in document.overridden.items() if ARGS[: len(path)] == path), None)
    return replace(
        document,
        data=data,
        key_places={**document.key_places, **dict.fromkeys(settled, place)},
        value_places={**document.value_places, **dict.fromkeys(settled, place)},
        sources={**document.sources, **dict.fromkeys(settled, source)},
        overridden={**document.overridden, **(dict.fromkeys(settled, overridden) if overridden else {})},
    )
