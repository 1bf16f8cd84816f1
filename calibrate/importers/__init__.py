"""Sources of measured step costs, by the name that ``capsim calibrate import --from`` takes.

Each importer is a module with ``read(path, request) -> Draft``; it is imported when it is asked for.
"""

from __future__ import annotations

import importlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from calibrate.draft import Draft
from calibrate.table import closest
from capsim.catalog import Model
from capsim.errors import BadInput, Fault

IMPORTERS: Mapping[str, str] = {
    "llmservingsim": "folder of LLMServingSim's profiler: dense.csv, per_sequence.csv, attention.csv",
    "aiconfigurator": "folder of NVIDIA aiconfigurator's kernel tables",
    "vidur": "CSV of Vidur's operator times",
    "vllm-bench-forward": "result of vLLM's forward-pass benchmark",
    "dynamo-fpm": "NVIDIA Dynamo's forward-pass metrics",
    "sglang-one-batch": "result of SGLang's bench_one_batch",
    "engine-steps": "steps that an engine logged, from capsim calibrate engine",
}
"""What PATH is, by importer."""
SCALING = ("aiconfigurator",)
"""Importers that can carry what they read over to another GPU."""


@dataclass(frozen=True)
class ImportRequest:
    """What the user says about the source; None: what the source itself says.

    Attributes:
        model: whose shapes the figures must have.
        gpu: capsim's catalog name of the GPU.
        dtype: of the weights.
        kv_dtype: of the KV cache.
        tensor_parallel_size: ranks.
        engine, engine_version: whose kernels were measured.
        host_overhead: seconds of each step that the GPU waits for the CPU.
        scale_to: catalog name of a GPU to carry the times over to, from `gpu`; only for `SCALING`.
        options: what only one importer understands, by name.
    """

    model: Model
    gpu: str | None = None
    dtype: str = "bfloat16"
    kv_dtype: str = "bfloat16"
    tensor_parallel_size: int = 1
    engine: str | None = None
    engine_version: str | None = None
    host_overhead: float | None = None
    scale_to: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    def refuse_experts(self) -> None:
        """Refuse a model with experts, where the importer knows dense layers only.

        Raises:
            BadInput: it has some.
        """
        if self.model.experts is not None:
            what = f"{self.model.name} has experts, and this source is read for dense models only"
            raise BadInput(Fault("--model", what, "", "--from aiconfigurator"))

    def refuse_other_options(self, known: Collection[str]) -> None:
        """Refuse an option that the importer does not understand.

        Raises:
            BadInput: every such option, with those that are known.
        """
        faults = [
            Fault(
                "--option",
                f"{name!r} is not known here",
                "",
                f"one of {', '.join(known)}",
                closest(name, known),
            )
            for name in self.options
            if name not in known
        ]
        if faults:
            raise BadInput(*faults)


class Importer(Protocol):
    """Reads one kind of source."""

    def __call__(self, path: Path, request: ImportRequest) -> Draft:
        """The draft of what stands at `path`.

        Raises:
            BadInput: the source is damaged, or does not hold what is asked for.
        """


def importer(name: str) -> Importer:
    """The importer of this name.

    Raises:
        BadInput: there is none.
    """
    if name not in IMPORTERS:
        raise BadInput(f"importer {name!r} is not known, expected one of {', '.join(IMPORTERS)}")
    module = importlib.import_module(f"calibrate.importers.{name.replace('-', '_')}")
    read: Importer = module.read
    return read
