"""A model or a GPU as an entry of the catalog: the YAML text that `read_model` or `read_gpu` reads."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from decimal import Decimal

from capsim import units
from capsim.catalog.attention import STATE_BYTES
from capsim.catalog.gpu import Gpu
from capsim.catalog.layer_types import pattern_of
from capsim.catalog.model import Model


def entry_text(model: Model, aliases: Sequence[str] = ()) -> str:
    """YAML of a model, such as one from `read_config`; what stands at its default is left out.

    Args:
        model: any.
        aliases: further names under which it is found.
    """
    defaults = {attribute.name: attribute.default for attribute in fields(Model)}
    stated = {key: value for key, value in asdict(model).items() if value != defaults[key]}
    if model.linear is not None:
        state = next(dtype for dtype, size in STATE_BYTES.items() if size == model.linear.state_bytes)
        stated["linear"] = {**stated["linear"], "state_dtype": state}
        del stated["linear"]["state_bytes"]
    if model.mlp_layers:
        full, alone = stated.pop("full_layers"), stated.pop("mlp_layers")
        stated["pattern"] = pattern_of(model.layers, full, alone)
    named = {"name": stated.pop("name"), **({"aliases": list(aliases)} if aliases else {})}
    return "\n".join(_lines({**named, **stated})) + "\n"


def gpu_text(gpu: Gpu, aliases: Sequence[str] = ()) -> str:
    """YAML of a GPU, with the source of each figure.

    Args:
        gpu: any.
        aliases: further names under which it is found.
    """
    stated = {
        "name": gpu.name,
        **({"aliases": list(aliases)} if aliases else {}),
        "memory": _size(gpu.memory),
        "memory_bandwidth": _exactly(gpu.memory_bandwidth, 9, "GB/s"),
        "dense_flops": {dtype: _exactly(rate, 12, "TFLOP/s") for dtype, rate in gpu.dense_flops.items()},
        "link_bandwidth": _exactly(gpu.link_bandwidth, 9, "GB/s"),
        **({"link_per_peer": True} if gpu.link_per_peer else {}),
        "sources": dict(gpu.sources),
    }
    return "\n".join(_lines(stated)) + "\n"


def _size(size: int) -> str:
    """Bytes in binary units where these hold all digits."""
    shown = units.format_size(size)
    return shown if units.parse_size(shown) == size else f"{size}B"


def _exactly(value: float, power: int, unit: str) -> str:
    """All digits of a quantity, in a unit of so many powers of ten."""
    digits = f"{Decimal(repr(float(value))).scaleb(-power):f}"
    return (digits.rstrip("0").rstrip(".") if "." in digits else digits) + unit


def _lines(section: Mapping[str, object], indent: str = "") -> Iterator[str]:
    """Lines of a mapping; JSON's scalars and lists are also YAML's."""
    for key, value in section.items():
        if isinstance(value, Mapping):
            yield f"{indent}{key}:"
            yield from _lines(value, indent + "  ")
        else:
            yield f"{indent}{key}: {json.dumps(value, ensure_ascii=False)}"
