from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from capsim.catalog import Model
from capsim.cost.profile_tables import MODEL_SHAPES


@dataclass(frozen=True)
class SourceFile:
    """A file that figures were taken from.

    Attributes:
        name: relative to the path that was imported.
        sha256: of its bytes, hexadecimal.
    """

    name: str
    sha256: str

    @classmethod
    def of(cls, path: Path, name: str | None = None) -> SourceFile:
        """The file at `path`, under its own name or another."""
        return cls(name or path.name, hashlib.sha256(path.read_bytes()).hexdigest())


@dataclass(frozen=True)
class Provenance:
    """Where the figures come from and what they hold for.

    Attributes:
        gpu: capsim's catalog name.
        gpu_name: the GPU that was measured, as the source names it.
        derived_from: its catalog name where it is another one than `gpu`; else empty.
        engine, engine_version: whose kernels were measured.
        model: what was measured; its name and sizes are written.
        dtype, kv_dtype: of weights and of KV.
        tensor_parallel_size: ranks.
        expert_parallel_size: as many where whole experts are dealt out to the ranks, else 1.
        routing: how unevenly tokens chose their experts, as the source names it; empty where it does not say.
        date: of the measurement, ISO 8601.
        measured_by: person or project.
        licence: SPDX name.
        attribution: sentence that must accompany the figures.
        importer: the importer's name, or ``calibrate run``.
        files: what was read.
        notes: what the source lacks and how it was filled, one sentence each.
    """

    gpu: str
    gpu_name: str
    derived_from: str = field(default="", kw_only=True)
    engine: str
    engine_version: str
    model: Model
    dtype: str
    kv_dtype: str
    tensor_parallel_size: int
    expert_parallel_size: int = field(default=1, kw_only=True)
    routing: str = field(default="", kw_only=True)
    date: str
    measured_by: str
    licence: str
    attribution: str
    importer: str
    files: tuple[SourceFile, ...] = ()
    notes: tuple[str, ...] = ()

    def members(self) -> dict[str, Any]:
        """The object of the file."""
        members: dict[str, Any] = dict(vars(self))
        shapes = {shape: getattr(self.model, shape) for shape in MODEL_SHAPES}
        members["model"] = {"name": self.model.name, **shapes}
        if self.model.experts is not None:
            members["model"]["experts"] = asdict(self.model.experts)
        else:
            del members["expert_parallel_size"]
        for optional in ("derived_from", "routing"):
            if not members[optional]:
                del members[optional]
        members["files"] = [vars(file) for file in self.files]
        members["notes"] = list(self.notes)
        return members
