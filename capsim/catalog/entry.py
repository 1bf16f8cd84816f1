"""A model as an entry of the catalog: the YAML text that `read_model` reads."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields

from capsim.catalog.attention import STATE_BYTES
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


def _lines(section: Mapping[str, object], indent: str = "") -> Iterator[str]:
    """Lines of a mapping; JSON's scalars and lists are also YAML's."""
    for key, value in section.items():
        if isinstance(value, Mapping):
            yield f"{indent}{key}:"
            yield from _lines(value, indent + "  ")
        else:
            yield f"{indent}{key}: {json.dumps(value, ensure_ascii=False)}"
