"""``meta.yaml`` of LLMServingSim's profiler: what was measured, checked against what is asked for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calibrate.importers import ImportRequest
from calibrate.provenance import SourceFile
from calibrate.stated import stated_gpu
from calibrate.table import read_text
from capsim import documents
from capsim.catalog import load_gpu
from capsim.documents import Document
from capsim.errors import BadInput, Fault

_VERSION = "1."  # profiler_version whose files are known
_DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp8": "fp8"}
_UNREAD = (
    "skew_fit"  # of this section one key is read; some others are numbers, which capsim's own files refuse
)
_SPLIT = {  # size that the profiler divides by the ranks, by its key in hf_overrides
    "intermediate_size": "intermediate_size",
    "num_attention_heads": "attention_heads",
    "num_key_value_heads": "kv_heads",
    "vocab_size": "vocabulary_size",
}


@dataclass(frozen=True)
class Meta:
    """What `meta.yaml` says, where it agrees with the request.

    Attributes:
        gpu: capsim's name; `gpu_name` is the driver's.
        gpu_name, engine_version: what was measured.
        date: ISO 8601, the day.
        ends: the largest chunk, decodes and context that the attention grid has, by the profiler's words, where it
            states them; a table that ends before was cut off.
        skewed: whether unequal decode lengths are to be charged: what ``skew_fit.enabled`` says, which is what
            LLMServingSim itself goes by; a file that does not say it leaves it to the tables that are there.
        file: the file itself.
    """

    gpu: str
    gpu_name: str
    engine_version: str
    date: str
    ends: Mapping[str, int]
    skewed: bool
    file: SourceFile


def read_meta(folder: Path, request: ImportRequest) -> Meta:
    """Read the file in `folder` or above it.

    Raises:
        BadInput: every disagreement with the request, and a profiler version that is not known.
    """
    path = next(
        (place / "meta.yaml" for place in (folder, folder.resolve().parent) if _is_there(place)), None
    )
    if path is None:
        raise BadInput(Fault(str(folder), "there is no meta.yaml in the folder or above it"))
    found: list[Fault] = []
    document = documents.parse(read_text(path), str(path), faults=found)
    faults = [
        *(fault for fault in found if not fault.key.startswith(_UNREAD)),
        *_stated(document),
        *_version_faults(document, request),
        *_dtype_faults(document, request),
        *_model_faults(document, request),
    ]
    if faults:
        raise BadInput(*faults)
    data = document.data
    return Meta(
        gpu=_gpu(document, request),
        gpu_name=data["gpu"],
        engine_version=str(data["vllm_version"]),
        date=data["profiled_at"][:10],
        ends=_ends(document),
        skewed=_skewed(document),
        file=SourceFile.of(path),
    )


def _is_there(folder: Path) -> bool:
    return (folder / "meta.yaml").is_file()


def _stated(document: Document) -> list[Fault]:
    """Faults of the texts that must be there."""
    names = ("profiler_version", "vllm_version", "gpu", "profiled_at", "variant")
    return [
        document.fault((name,), "is missing" if name not in document.data else "is no text", "a text")
        for name in names
        if not isinstance(document.data.get(name), str)
    ]


def _version_faults(document: Document, request: ImportRequest) -> list[Fault]:
    faults = []
    profiler, engine = (str(document.data.get(name)) for name in ("profiler_version", "vllm_version"))
    if not profiler.startswith(_VERSION):
        faults.append(document.fault(("profiler_version",), f"{profiler} is not known", f"{_VERSION}x"))
    if request.engine not in {None, "vllm"}:
        faults.append(document.fault(("vllm_version",), f"the engine is vllm, not {request.engine}"))
    if request.engine_version not in {None, engine}:
        faults.append(
            document.fault(("vllm_version",), engine, f"the version asked for, {request.engine_version}")
        )
    return faults


def _dtype_faults(document: Document, request: ImportRequest) -> list[Fault]:
    """The variant names the weights, and after ``-kv`` the KV cache where that differs."""
    variant = str(document.data.get("variant"))
    weights, _, kv = variant.partition("-kv")
    found = _DTYPES.get(weights, weights)
    asked = {"dtype": (found, request.dtype), "kv_dtype": (_DTYPES.get(kv, kv) or found, request.kv_dtype)}
    return [
        document.fault(("variant",), f"{variant} is measured with {name} {here}", f"{name} {wanted}")
        for name, (here, wanted) in asked.items()
        if here != wanted
    ]


def _model_faults(document: Document, request: ImportRequest) -> list[Fault]:
    """Sizes of one rank, as the profiler notes them for the last number of ranks that it measured."""
    degrees = document.data.get("tp_degrees")
    if not isinstance(degrees, list) or not degrees or not all(isinstance(each, int) for each in degrees):
        return [document.fault(("tp_degrees",), "is no list of numbers", "the numbers of ranks")]
    ranks = request.tensor_parallel_size
    if ranks not in degrees:
        measured = ", ".join(map(str, degrees))
        return [document.fault(("tp_degrees",), f"{measured} ranks were measured", f"{ranks} among them")]
    path = ("engine_effective", "hf_overrides")
    sizes: Any = document.data.get(path[0])
    sizes = sizes.get(path[1]) if isinstance(sizes, dict) else None
    if not isinstance(sizes, dict):
        return [document.fault(path, "is missing", "the sizes of one rank")]
    wanted = {key: max(1, getattr(request.model, name) // degrees[-1]) for key, name in _SPLIT.items()}
    return [
        document.fault(
            (*path, key), f"{sizes.get(key)} on one of {degrees[-1]} ranks", f"{size} of {request.model.name}"
        )
        for key, size in wanted.items()
        if sizes.get(key) != size
    ]


def _gpu(document: Document, request: ImportRequest) -> str:
    """The catalog's name of the GPU; one that it does not hold is taken as it is asked for."""
    named = document.data["gpu"]
    try:
        known = load_gpu(named).name
    except BadInput as error:
        if request.gpu is None:
            fault = document.fault(
                ("gpu",), f"{named!r} is not in the catalog", "--gpu with a name of its own"
            )
            raise BadInput(fault) from error
        return request.gpu
    if request.gpu is not None and stated_gpu(request.gpu).name != known:
        raise BadInput(document.fault(("gpu",), f"{named!r} is {known}", f"the GPU asked for, {request.gpu}"))
    return known


def _ends(document: Document) -> dict[str, int]:
    """Upper ends of axes that are stated as, for example, ``0, 16-2048 x2``."""
    grid = document.data.get("attention_grid")
    stated = grid if isinstance(grid, dict) else {}
    found = {name: re.search(r"-(\d+) x", str(stated.get(name))) for name in ("chunks", "n_decode", "kv")}
    return {name: int(end.group(1)) for name, end in found.items() if end}


def _skewed(document: Document) -> bool:
    section = document.data.get("skew_fit")
    stated = section.get("enabled") if isinstance(section, dict) else None
    return stated if isinstance(stated, bool) else True
