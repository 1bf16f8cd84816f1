"""The ``provenance`` of a profile: what can be wrong with it."""

from __future__ import annotations

from capsim.catalog.model import DTYPE_BYTES, WEIGHT_BYTES, Experts
from capsim.cost.profile_reader import Reader
from capsim.cost.profile_tables import MODEL_SHAPES, Provenance

_TEXTS = (
    "gpu",
    "gpu_name",
    "engine",
    "engine_version",
    "date",
    "measured_by",
    "licence",
    "attribution",
    "importer",
)
_OPTIONAL = ("derived_from", "expert_parallel_size", "pipeline_parallel_size", "routing")


def read_provenance(reader: Reader) -> Provenance:
    """The section, every fault of which is added to the reader's."""
    parts = reader.members(
        *("model", "dtype", "kv_dtype", "tensor_parallel_size", "files", "notes"), *_TEXTS, optional=_OPTIONAL
    )
    model = parts["model"].members("name", *MODEL_SHAPES, optional=("experts",))
    files = [item.members("name", "sha256") for item in parts["files"].items(least=0)]
    shapes = {shape: model[shape].count() for shape in MODEL_SHAPES}
    experts = _experts(model["experts"], shapes["layers"]) if model["experts"].present else None
    ranks = parts["tensor_parallel_size"].count()
    holders = parts["expert_parallel_size"].count() if parts["expert_parallel_size"].present else 1
    _check_ranks(parts, experts, ranks, holders)
    return Provenance(
        model=model["name"].text(),
        shapes=shapes,
        experts=experts,
        dtype=parts["dtype"].one_of(*WEIGHT_BYTES),
        kv_dtype=parts["kv_dtype"].one_of(*DTYPE_BYTES),
        derived_from=parts["derived_from"].text() if parts["derived_from"].present else "",
        tensor_parallel_size=ranks,
        expert_parallel_size=holders,
        routing=parts["routing"].text() if parts["routing"].present else "",
        files=tuple({name: file[name].text() for name in ("name", "sha256")} for file in files),
        notes=tuple(item.text() for item in parts["notes"].items(least=0)),
        **{name: parts[name].text() for name in _TEXTS},
    )


def _check_ranks(parts: dict[str, Reader], experts: Experts | None, ranks: int, holders: int) -> None:
    """Experts are split over all ranks or dealt out to them, and a model without any has no routing."""
    if holders > 1 and (experts is None or holders != ranks):
        expected = "1 (the model has no experts)" if experts is None else f"1 or tensor_parallel_size {ranks}"
        parts["expert_parallel_size"].fault(f"{holders}", expected)
    if parts["pipeline_parallel_size"].present and parts["pipeline_parallel_size"].count() > 1:
        stages = parts["pipeline_parallel_size"].value
        parts["pipeline_parallel_size"].fault(f"{stages} stages, which no profile covers", "1")
    if parts["routing"].present and experts is None:
        parts["routing"].fault(f"{parts['routing'].value!r} of a model without experts", "model.experts")


def _experts(reader: Reader, layers: int) -> Experts:
    parts = reader.members("count", "per_token", "intermediate_size", "shared", "dense_layers")
    experts = Experts(
        count=parts["count"].count(),
        per_token=parts["per_token"].count(),
        intermediate_size=parts["intermediate_size"].count(),
        shared=parts["shared"].count(least=0),
        dense_layers=parts["dense_layers"].count(least=0),
    )
    if experts.per_token > experts.count:
        parts["per_token"].fault(f"{experts.per_token}", f"at most the {experts.count} experts")
    if experts.dense_layers >= layers:
        parts["dense_layers"].fault(f"{experts.dense_layers}", f"fewer than the {layers} layers")
    return experts
