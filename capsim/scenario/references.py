from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from capsim.catalog import Gpu, Model, load_gpu, load_model
from capsim.catalog.data import data_folder
from capsim.catalog.loader import is_path
from capsim.catalog.schema import shown
from capsim.documents import KeyPath
from capsim.errors import BadInput, Fault
from capsim.scenario.inspection import Inspection
from capsim.scenario.named_file import BESIDE, find_file, missing_file
from capsim.scenario.step_cost_section import ProfileSection

_AnyEntry = TypeVar("_AnyEntry", Model, Gpu)


@dataclass(frozen=True)
class References:
    """What a scenario names and others hold; None where it names nothing, or nothing that is there.

    Attributes:
        model, gpu: of the catalog.
        model_file: absolute path of a model that is none of the catalog's; so are the next ones.
        gpu_file: of a GPU that is none of the catalog's.
        profile: measured step costs.
        trace: recorded requests.
        validation: what `capsim validate` found.
    """

    model: Model | None
    model_file: Path | None
    gpu: Gpu | None
    gpu_file: Path | None
    profile: Path | None
    trace: Path | None
    validation: Path | None


def find_references(inspection: Inspection) -> References:
    """Look up all that the scenario names, and report what is not there."""
    section = inspection.section
    model, model_file = _entry(inspection, "model", section.model, load_model)
    gpu, gpu_file = _entry(inspection, "gpu", section.gpu, load_gpu)
    cost, trace = section.step_cost, section.demand and section.demand.trace
    return References(
        model=model,
        model_file=model_file,
        gpu=gpu,
        gpu_file=gpu_file,
        profile=_file(
            inspection,
            ("step_cost", "path"),
            cost.path if isinstance(cost, ProfileSection) else None,
            "profiles",
            (".yaml", ".yml", ".json"),
        ),
        trace=_file(
            inspection,
            ("demand", "trace", "path"),
            trace.path if trace else None,
            "traces",
            (".csv", ".csv.gz", ".jsonl", ".jsonl.gz"),
        ),
        validation=_file(inspection, ("validation",), section.validation, "validations", (".json",)),
    )


def _entry(
    inspection: Inspection, key: str, name: str | None, load: Callable[[str, Path], _AnyEntry]
) -> tuple[_AnyEntry | None, Path | None]:
    """A name of the catalog, or a file: beside the scenario, or at an absolute path."""
    if name is None:
        return None, None
    folder = inspection.folder((key,))
    path = Path(os.path.realpath(folder / name))  # which a link to itself does not trouble
    if is_path(name) and not path.is_file():
        inspection.report((key,), f"there is no file {shown(name)}", BESIDE)
        return None, None
    try:
        entry = load(name, folder)
    except BadInput as error:
        _adopt(inspection, (key,), error)
        return None, None
    own = is_path(name) and path.parent != data_folder(f"{key}s").resolve()
    return entry, path if own else None


def _adopt(inspection: Inspection, path: KeyPath, error: BadInput) -> None:
    """Put a catalog's fault where the scenario names the entry; a fault inside a catalog file stays there."""
    for fault in error.faults:
        if isinstance(fault, Fault) and fault.line is None:
            inspection.report(path, fault.what, fault.expected, fault.suggestion)
        elif isinstance(fault, Fault):
            inspection.faults.append(fault)


def _file(
    inspection: Inspection, key: KeyPath, name: str | None, kind: str, suffixes: tuple[str, ...]
) -> Path | None:
    """A file beside the scenario or among the shipped ones."""
    if name is None:
        return None
    found = find_file(name, inspection.folder(key), kind, suffixes)
    if found is None:
        inspection.report(key, *missing_file(name, kind, suffixes))
    return found
