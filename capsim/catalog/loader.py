"""Models and GPUs by name, from the YAML files shipped in ``configs/``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, TypeVar

from capsim import documents
from capsim.catalog import schema
from capsim.catalog.attention import LatentAttention
from capsim.catalog.data import data_names, data_path
from capsim.catalog.gpu import Gpu
from capsim.catalog.layer_types import MLP, of_symbol
from capsim.catalog.model import Experts, Model
from capsim.catalog.model_section import ModelSection, Named, full_layers, linear_attention, model_faults
from capsim.catalog.plausible import implausible
from capsim.catalog.schema import Bandwidth, Boolean, Compute, Size, Text
from capsim.catalog.unmodelled import unmodelled
from capsim.catalog.vision import Vision
from capsim.errors import BadInput, Fault

COMPUTE_DTYPES = ("bfloat16", "float16", "fp8", "fp4", "int8")
"""Dtypes whose rates a GPU's data sheet states; that of int8 counts integer operations."""

FIGURES = ("memory", "memory_bandwidth", "dense_flops", "link_bandwidth")
"""A GPU's figures; each has its source in the file."""


def model_names() -> tuple[str, ...]:
    """Names of the shipped models, sorted."""
    return _names("models")


def gpu_names() -> tuple[str, ...]:
    """Names of the shipped GPUs, sorted."""
    return _names("gpus")


def load_model(name: str, folder: Path = Path()) -> Model:
    """Architecture of a model by its catalog name or an alias, or by the path of a file such as ``my-model.yaml``.

    Args:
        name: the name; what ends in ``.yaml`` or ``.yml`` is a path.
        folder: where a relative path starts.

    Raises:
        BadInput: no such model, with the reason where it is known; or its file is at fault.
    """
    if is_path(name):
        return read_model(folder / name)
    return read_model(_find("models", "model", name))


def is_path(name: str) -> bool:
    """Whether the name of a model or a GPU is the path of a file, and not in the catalog."""
    return name.endswith((".yaml", ".yml"))


def known_model(name: str) -> str:
    """The catalog's name of a model with this name or alias; empty where there is none."""
    return _known("models", name, _aliases("models"))


def known_gpu(name: str) -> str:
    """The catalog's name of a GPU with this name or alias; empty where there is none."""
    return _known("gpus", name, _aliases("gpus"))


def load_gpu(name: str, folder: Path = Path()) -> Gpu:
    """Data sheet of a GPU by its catalog name or an alias, or by the path of a file such as ``my-gpu.yaml``.

    Args:
        name: the name; what ends in ``.yaml`` or ``.yml`` is a path.
        folder: where a relative path starts.

    Raises:
        BadInput: no such GPU, with the reason where it is known; or its file is at fault.
    """
    if is_path(name):
        return read_gpu(folder / name)
    return read_gpu(_find("gpus", "GPU", name))


def read_model(path: Path) -> Model:
    """Architecture of a model from a YAML file.

    Raises:
        BadInput: every fault of the file, also an attention kind that is not counted yet.
    """
    section = _read(ModelSection, path)
    fields = section.model_dump(
        exclude={"aliases", "experts", "latent", "linear", "full_every", "full_layers", "pattern", "vision"}
    )
    return Model(
        **fields,
        experts=None if section.experts is None else Experts(**section.experts.model_dump()),
        latent=None if section.latent is None else LatentAttention(**section.latent.model_dump()),
        linear=None if section.linear is None else linear_attention(section.linear),
        full_layers=full_layers(section),
        mlp_layers=of_symbol(section.pattern or "", MLP),
        vision=None if section.vision is None else Vision(**section.vision.model_dump()),
    )


def read_gpu(path: Path) -> Gpu:
    """Data sheet of a GPU from a YAML file.

    Raises:
        BadInput: every fault of the file, also a figure without its source or one that no GPU has.
    """
    return _gpu(_read(_GpuSection, path))


def _gpu(section: _GpuSection) -> Gpu:
    return Gpu(**section.model_dump(exclude={"aliases"}))


class _GpuSection(Named):
    memory: Size
    memory_bandwidth: Bandwidth
    dense_flops: dict[Annotated[str, schema.choice(*COMPUTE_DTYPES)], Compute]
    link_bandwidth: Bandwidth
    sources: dict[Annotated[str, schema.choice(*FIGURES)], Text]
    link_per_peer: Boolean = False


_AnyNamed = TypeVar("_AnyNamed", bound=Named)


def _read(section: type[_AnyNamed], path: Path) -> _AnyNamed:
    faults: list[Fault] = []
    document = documents.load(path, faults=faults)
    checked = schema.validated(section, document, faults)
    if isinstance(checked, _GpuSection):
        faults.extend(_unsourced(checked, document))
        faults.extend(document.fault(*doubt) for doubt in implausible(_gpu(checked)))
    if isinstance(checked, ModelSection):
        faults.extend(model_faults(checked, document))
    if checked is None or faults:
        raise BadInput(*faults)
    return checked


def _unsourced(section: _GpuSection, document: documents.Document) -> list[Fault]:
    """Faults for figures that do not say where they come from."""
    missing = [name for name in FIGURES if name not in section.sources]
    return [document.fault(("sources",), f"no source for {name}", "one for each figure") for name in missing]


def _names(kind: str) -> tuple[str, ...]:
    return tuple(sorted(name.removesuffix(".yaml") for name in data_names(kind, (".yaml",))))


def _find(kind: str, noun: str, name: str) -> Path:
    """Path of the file with this name or alias."""
    aliases = {} if name in _names(kind) else _aliases(kind)
    known = _known(kind, name, aliases)
    if not known:
        _refuse_unmodelled(kind, noun, name)
        names = _names(kind)
        close = schema.closest(name, (*names, *aliases))
        suggestion = aliases.get(close, close)
        fault = Fault(noun, f"{name!r} is not in the catalog", "", f"one of {', '.join(names)}", suggestion)
        raise BadInput(fault)
    return data_path(kind, f"{known}.yaml")


def _refuse_unmodelled(kind: str, noun: str, name: str) -> None:
    """A name that is known, and why it has no entry, is answered better than by a name that is like it."""
    known = unmodelled(kind).get(name.lower())
    if known is not None:
        what = f"{name!r} is not in the catalog: {known.reason}"
        raise BadInput(Fault(noun, what, expected=known.instead))


def _known(kind: str, name: str, aliases: Mapping[str, str]) -> str:
    names = _names(kind)
    lower = name.lower()
    return next((known for known in names if known == lower), "") or aliases.get(lower, "")


def _aliases(kind: str) -> dict[str, str]:
    """Each entry's name by its aliases in lower case."""
    return {
        str(alias).lower(): known
        for known in _names(kind)
        for alias in documents.load(data_path(kind, f"{known}.yaml")).data.get("aliases", [])
    }
