"""Models and GPUs by name, from the YAML files shipped in ``configs/``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import Field

from capsim import documents
from capsim.catalog import schema
from capsim.catalog.attention import LatentAttention, LinearAttention
from capsim.catalog.data import data_names, data_path
from capsim.catalog.gpu import Gpu
from capsim.catalog.model import Experts, Model
from capsim.catalog.schema import Bandwidth, Boolean, Compute, Count, PositiveCount, Size, Text
from capsim.catalog.vision import Vision
from capsim.errors import BadInput, Fault

COUNTED_ATTENTION = ("gqa", "mla", "sliding-window", "linear")
"""Attention kinds whose weights and KV bytes this version counts; any other is refused, not miscounted."""

SHAPES = {"mla": "latent", "sliding-window": "window", "linear": "linear"}
"""The key that gives the shape of each attention kind beside heads."""

STATE_BYTES = {"bfloat16": 2, "float32": 4}
"""Bytes of an element of a linear layer's state by dtype."""

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
        BadInput: no such model, or its file is at fault.
    """
    if is_path(name):
        return read_model(folder / name)
    return read_model(_find("models", "model", name))


def is_path(name: str) -> bool:
    """Whether a model's name is the path of a file, and not in the catalog."""
    return name.endswith((".yaml", ".yml"))


def known_model(name: str) -> str:
    """The catalog's name of a model with this name or alias; empty where there is none."""
    return _known("models", name, _aliases("models"))


def load_gpu(name: str) -> Gpu:
    """Data sheet of a GPU by its catalog name or an alias.

    Raises:
        BadInput: no such GPU, or its file is at fault.
    """
    return read_gpu(_find("gpus", "GPU", name))


def read_model(path: Path) -> Model:
    """Architecture of a model from a YAML file.

    Raises:
        BadInput: every fault of the file, also an attention kind that is not counted yet.
    """
    section = _read(_ModelSection, path)
    fields = section.model_dump(
        exclude={"aliases", "experts", "latent", "linear", "full_every", "full_layers", "vision"}
    )
    return Model(
        **fields,
        experts=None if section.experts is None else Experts(**section.experts.model_dump()),
        latent=None if section.latent is None else LatentAttention(**section.latent.model_dump()),
        linear=None if section.linear is None else _linear(section.linear),
        full_layers=_full_layers(section),
        vision=None if section.vision is None else Vision(**section.vision.model_dump()),
    )


def read_gpu(path: Path) -> Gpu:
    """Data sheet of a GPU from a YAML file.

    Raises:
        BadInput: every fault of the file, also a figure without its source.
    """
    section = _read(_GpuSection, path)
    return Gpu(**section.model_dump(exclude={"aliases"}))


def _attention(value: object) -> str:
    if isinstance(value, str) and value in COUNTED_ATTENTION:
        return value
    raise schema.refused(f"attention kind {value!r} is not counted yet", " or ".join(COUNTED_ATTENTION))


class _Named(schema.Section):
    name: Text
    aliases: list[Text] = Field(default_factory=list)


class _ExpertsSection(schema.Section):
    count: PositiveCount
    per_token: PositiveCount
    intermediate_size: PositiveCount
    shared: Count = 0
    dense_layers: Count = 0


class _LatentSection(schema.Section):
    kv_rank: PositiveCount
    rope_head_dim: PositiveCount
    nope_head_dim: PositiveCount
    value_head_dim: PositiveCount
    query_rank: Count = 0
    index_head_dim: Count = 0


class _LinearSection(schema.Section):
    key_heads: PositiveCount
    value_heads: PositiveCount
    key_head_dim: PositiveCount
    value_head_dim: PositiveCount
    kernel: PositiveCount
    state_dtype: Annotated[str, schema.choice(*STATE_BYTES)]


class _VisionSection(schema.Section):
    split_parameters: PositiveCount
    replicated_parameters: PositiveCount
    image_tokens: PositiveCount
    token_elements: PositiveCount
    image_elements: PositiveCount
    layer_elements: PositiveCount


class _ModelSection(_Named):
    attention: Annotated[str, schema.PlainValidator(_attention)]
    layers: PositiveCount
    hidden_size: PositiveCount
    intermediate_size: PositiveCount
    attention_heads: PositiveCount
    kv_heads: PositiveCount
    head_dim: PositiveCount
    vocabulary_size: PositiveCount
    tied_embeddings: Boolean
    max_position_embeddings: PositiveCount
    source: Text
    qk_norm: Boolean = False
    attention_bias: Boolean = False
    experts: _ExpertsSection | None = None
    latent: _LatentSection | None = None
    window: PositiveCount | None = None
    linear: _LinearSection | None = None
    full_every: PositiveCount | None = None
    full_layers: list[Count] = Field(default_factory=list)
    kv_shared_layers: Count = 0
    output_gate: Boolean = False
    vision: _VisionSection | None = None


def _linear(section: _LinearSection) -> LinearAttention:
    shape = section.model_dump(exclude={"state_dtype"})
    return LinearAttention(**shape, state_bytes=STATE_BYTES[section.state_dtype])


def _full_layers(section: _ModelSection) -> tuple[int, ...]:
    """Indices of the layers that see everything; ``full_every: 6`` means that the sixth, twelfth, ... do."""
    if section.full_every is None:
        return tuple(section.full_layers)
    return tuple(range(section.full_every - 1, section.layers, section.full_every))


class _GpuSection(_Named):
    memory: Size
    memory_bandwidth: Bandwidth
    dense_flops: dict[Annotated[str, schema.choice(*COMPUTE_DTYPES)], Compute]
    link_bandwidth: Bandwidth
    sources: dict[Annotated[str, schema.choice(*FIGURES)], Text]
    link_per_peer: Boolean = False


_AnyNamed = TypeVar("_AnyNamed", bound=_Named)


def _read(section: type[_AnyNamed], path: Path) -> _AnyNamed:
    faults: list[Fault] = []
    document = documents.load(path, faults=faults)
    checked = schema.validated(section, document, faults)
    if isinstance(checked, _GpuSection):
        faults.extend(_unsourced(checked, document))
    if isinstance(checked, _ModelSection):
        faults.extend(_unshaped(checked, document))
        if checked.experts is not None:
            faults.extend(_impossible(checked.experts, checked.layers, document))
    if checked is None or faults:
        raise BadInput(*faults)
    return checked


def _unsourced(section: _GpuSection, document: documents.Document) -> list[Fault]:
    """Faults for figures that do not say where they come from."""
    missing = [name for name in FIGURES if name not in section.sources]
    return [document.fault(("sources",), f"no source for {name}", "one for each figure") for name in missing]


def _unshaped(section: _ModelSection, document: documents.Document) -> list[Fault]:
    """Faults for shapes that do not go with the attention kind, and for layers that there are not."""
    needed = SHAPES.get(section.attention)
    given = [key for key in SHAPES.values() if getattr(section, key) is not None]
    # Layers beside linear ones may have a latent.
    allowed = {needed, "latent" if section.attention == "linear" else needed}
    faults = [
        document.fault((key,), f"does not go with attention {section.attention}", of_key=True)
        for key in given
        if key not in allowed
    ]
    if needed is not None and needed not in given:
        faults.append(document.fault(("attention",), f"{section.attention} needs the key {needed}"))
    mixed = section.window is not None or section.linear is not None
    faults += [
        document.fault((key,), "needs window or linear", of_key=True)
        for key in ("full_every", "full_layers")
        if key in section.model_fields_set and not mixed
    ]
    if section.full_every is not None and section.full_layers:
        faults.append(
            document.fault(("full_layers",), "stands beside full_every", "one of them", of_key=True)
        )
    faults += [
        document.fault(("full_layers", index), f"there is no layer {layer}", f"at most {section.layers - 1}")
        for index, layer in enumerate(section.full_layers)
        if layer >= section.layers
    ]
    if section.kv_shared_layers >= section.layers:
        fault = f"{section.kv_shared_layers} is more than there are layers beside one with a KV cache"
        faults.append(document.fault(("kv_shared_layers",), fault, f"at most {section.layers - 1}"))
    return faults


def _impossible(experts: _ExpertsSection, layers: int, document: documents.Document) -> list[Fault]:
    """Faults for experts that a model with this many layers cannot have."""
    return [
        document.fault(("experts", key), f"{value} is more than {noun}", f"at most {most}")
        for key, value, noun, most in (
            ("per_token", experts.per_token, "there are experts", experts.count),
            ("dense_layers", experts.dense_layers, "there are layers beside one with experts", layers - 1),
        )
        if value > most
    ]


def _names(kind: str) -> tuple[str, ...]:
    return tuple(name.removesuffix(".yaml") for name in data_names(kind, (".yaml",)))


def _find(kind: str, noun: str, name: str) -> Path:
    """Path of the file with this name or alias."""
    aliases = {} if name in _names(kind) else _aliases(kind)
    known = _known(kind, name, aliases)
    if not known:
        names = _names(kind)
        close = schema.closest(name, (*names, *aliases))
        suggestion = aliases.get(close, close)
        fault = Fault(noun, f"{name!r} is not in the catalog", "", f"one of {', '.join(names)}", suggestion)
        raise BadInput(fault)
    return data_path(kind, f"{known}.yaml")


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
