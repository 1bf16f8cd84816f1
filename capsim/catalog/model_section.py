"""A model's YAML file: its keys, and what they must agree on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from capsim import documents
from capsim.catalog import schema
from capsim.catalog.attention import LINEAR_RULES, STATE_BYTES, LinearAttention
from capsim.catalog.layer_types import ATTENTION, SYMBOLS, every, of_symbol
from capsim.catalog.schema import Boolean, Count, PositiveCount, Text
from capsim.errors import Fault

COUNTED_ATTENTION = ("gqa", "mla", "sliding-window", "linear")
"""Attention kinds whose weights and KV bytes this version counts; any other is refused, not miscounted."""

SHAPES = {"mla": "latent", "sliding-window": "window", "linear": "linear"}
"""The key that gives the shape of each attention kind beside heads."""


class Named(schema.Section):
    """What every catalog entry has."""

    name: Text
    aliases: list[Text] = Field(default_factory=list)


def _attention(value: object) -> str:
    if isinstance(value, str) and value in COUNTED_ATTENTION:
        return value
    raise schema.refused(f"attention kind {value!r} is not counted yet", " or ".join(COUNTED_ATTENTION))


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
    rule: Annotated[str, schema.choice(*LINEAR_RULES)] = "gated-delta"


class _VisionSection(schema.Section):
    split_parameters: PositiveCount
    replicated_parameters: PositiveCount
    image_tokens: PositiveCount
    token_elements: PositiveCount
    image_elements: PositiveCount
    layer_elements: PositiveCount


class ModelSection(Named):
    """The whole file: see `capsim.catalog.model.Model`."""

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
    pattern: Text | None = None
    gated_mlp: Boolean = True
    kv_shared_layers: Count = 0
    output_gate: Boolean = False
    vision: _VisionSection | None = None


def linear_attention(section: _LinearSection) -> LinearAttention:
    """The linear attention that a section states."""
    shape = section.model_dump(exclude={"state_dtype"})
    return LinearAttention(**shape, state_bytes=STATE_BYTES[section.state_dtype])


def full_layers(section: ModelSection) -> tuple[int, ...]:
    """Indices of the layers that see everything; ``full_every: 6`` means that the sixth, twelfth, ... do."""
    if section.pattern is not None:
        return of_symbol(section.pattern, ATTENTION)
    return every(section.full_every or 0, section.layers) or tuple(section.full_layers)


def model_faults(section: ModelSection, document: documents.Document) -> list[Fault]:
    """Faults of a file whose keys are sound by themselves."""
    return [
        *_shape_faults(section, document),
        *_layer_faults(section, document),
        *_pattern_faults(section, document),
        *(() if section.experts is None else _expert_faults(section.experts, section.layers, document)),
    ]


def _shape_faults(section: ModelSection, document: documents.Document) -> Iterator[Fault]:
    """Shapes that do not go with the attention kind."""
    needed = SHAPES.get(section.attention)
    given = [key for key in SHAPES.values() if getattr(section, key) is not None]
    # Layers beside linear ones may have a latent.
    allowed = {needed, "latent" if section.attention == "linear" else needed}
    for key in given:
        if key not in allowed:
            yield document.fault((key,), f"does not go with attention {section.attention}", of_key=True)
    if needed is not None and needed not in given:
        yield document.fault(("attention",), f"{section.attention} needs the key {needed}")


def _layer_faults(section: ModelSection, document: documents.Document) -> Iterator[Fault]:
    """Layers that there are not, or that are stated twice."""
    mixed = section.window is not None or section.linear is not None
    for key in ("full_every", "full_layers"):
        if key in section.model_fields_set and not mixed:
            yield document.fault((key,), "needs window or linear", of_key=True)
    if section.full_every is not None and section.full_layers:
        yield document.fault(("full_layers",), "stands beside full_every", "one of them", of_key=True)
    for index, layer in enumerate(section.full_layers):
        if layer >= section.layers:
            what = f"there is no layer {layer}"
            yield document.fault(("full_layers", index), what, f"at most {section.layers - 1}")
    if section.kv_shared_layers >= section.layers:
        what = f"{section.kv_shared_layers} is more than there are layers beside one with a KV cache"
        yield document.fault(("kv_shared_layers",), what, f"at most {section.layers - 1}")


def _pattern_faults(section: ModelSection, document: documents.Document) -> Iterator[Fault]:
    """A pattern that is not one symbol a layer, or says what other keys say too."""
    pattern = section.pattern
    if pattern is None:
        return
    if section.linear is None:
        yield document.fault(("pattern",), "needs linear", of_key=True)
    for key in ("full_every", "full_layers", "experts"):
        if getattr(section, key):
            yield document.fault((key,), "stands beside pattern", "one of them", of_key=True)
    if len(pattern) != section.layers:
        what = f"has {len(pattern)} symbols for {section.layers} layers"
        yield document.fault(("pattern",), what, f"{section.layers} symbols, one a layer")
    for symbol in sorted(set(pattern) - set(SYMBOLS)):
        what = f"{symbol!r} is no kind of layer"
        yield document.fault(("pattern",), what, f"each one of {' '.join(SYMBOLS)}")


def _expert_faults(experts: _ExpertsSection, layers: int, document: documents.Document) -> list[Fault]:
    """Experts that a model with this many layers cannot have."""
    return [
        document.fault(("experts", key), f"{value} is more than {noun}", f"at most {most}")
        for key, value, noun, most in (
            ("per_token", experts.per_token, "there are experts", experts.count),
            ("dense_layers", experts.dense_layers, "there are layers beside one with experts", layers - 1),
        )
        if value > most
    ]
