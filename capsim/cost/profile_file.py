"""Measured step costs as a file: the schema, and everything that can be wrong with one.

A profile is one JSON object, version 1::

    {
      "schema_version": 1,
      "provenance": {
        "gpu": "h100-sxm", "gpu_name": "NVIDIA H200", "derived_from": "h200",
        "engine": "vllm", "engine_version": "0.24.0",
        "model": {"name": "mixtral-8x7b", "layers": 32, "hidden_size": 4096, "intermediate_size": 14336,
                  "attention_heads": 32, "kv_heads": 8, "head_dim": 128, "vocabulary_size": 32000,
                  "experts": {"count": 8, "per_token": 2, "intermediate_size": 14336, "shared": 0, "dense_layers": 0}},
        "dtype": "bfloat16", "kv_dtype": "bfloat16", "tensor_parallel_size": 2,
        "expert_parallel_size": 2, "pipeline_parallel_size": 1, "routing": "power_law_1.01",
        "date": "2026-08-21", "measured_by": "...", "licence": "Apache-2.0", "attribution": "...",
        "importer": "...", "files": [{"name": "gemm.csv", "sha256": "..."}], "notes": ["..."]
      },
      "operators": [
        {"name": "qkv_proj", "per": "tokens", "times": 32, "tag": "measured",
         "counts": [1, 2, ...], "seconds": [...],
         "aligned": {"multiple": 8, "counts": [8, 16, ...], "seconds": [...]}},
        {"name": "moe", "per": "tokens", "times": 32, "tag": "measured", "counts": [...], "seconds": [...]},
        {"name": "lm_head", "per": "sequences", "times": 1, "tag": "measured", "counts": [...], "seconds": [...]}
      ],
      "attention": {
        "times": 32,
        "prefill": {"tag": "fitted", "new": [1, ...], "past": [0, ...], "seconds": [[...], ...]},
        "decode": {"tag": "measured", "decodes": [1, ...], "context": [1, ...], "seconds": [[...], ...]},
        "mixed": {"tag": "measured", "new": [...], "past": [...], "decodes": [...], "context": [...],
                  "seconds": [[[[...]]]]},
        "skew": {"tag": "fitted", "decodes": [...], "ratio": [1.0, ...], "alpha": [[...], ...]},
        "mixed_skew": {"tag": "fitted", "decodes": [...], "ratio": [1.0, ...], "alpha": [[...], ...]}
      },
      "host": {"tag": "assumed", "seconds": 0.0005},
      "graph_sizes": [1, 2, 4, 8, ...],
      "ranges": {"tokens": [1, 8192], "sequences": [1, 256], "new": [1, 8192], "past": [0, 8192],
                 "decodes": [1, 256], "context": [16, 8192]},
      "held_out": [{"regime": "decode", "size": "small", "cases": 12, "median": 0.01, "p90": 0.03, "bias": -0.002}],
      "memory": {
        "total": {"tag": "measured", "source": "log", "version": "0.19.0", "bytes": 85029610455},
        "weights": {...}, "non_torch": {...}, "graphs": {...}, "estimated_graphs": {...},
        "activations": {"tag": "measured", "source": "log", "version": "0.19.0",
                        "tokens": [2048, 8192], "sequences": [256, 1024], "bytes": [612032512, 2029387121]},
        "block": {"tag": "derived", "source": "log", "version": "0.19.0", "tokens": 16, "bytes": 2097152}
      }
    }

``aligned``, ``mixed``, ``skew``, ``mixed_skew``, ``graph_sizes``, ``held_out`` and ``memory`` may be absent, and so may
``derived_from`` and the keys of the paragraph on experts; no other key is allowed. Seconds are of one call; a step
takes `times` of them. Operators cover everything but attention: ``per`` tokens of the batch, or per sequence (decodes
and chunks). ``aligned`` holds for counts that are multiples of ``multiple``, where a kernel has an alignment cliff.
``mixed`` is one chunk together with equal decodes, ``skew`` says what unequal decode lengths cost (see `Skew`),
``mixed_skew`` what they cost beside a chunk. ``ranges`` say where the tables rest on measurements; a table may reach
further, as a fit does, never less far. A tag is ``measured``, ``fitted``, ``derived`` or ``assumed``.

``derived_from`` is in the provenance of a profile whose kernels were measured on another GPU and carried over by a
rule that its notes state: the catalog name of that GPU. Its tables are tagged ``derived``.

A mixture of experts has ``experts`` (the same sizes as in the catalog), a dense model has none. ``moe`` is the operator
of one layer's chosen experts, and its ``times`` are the layers that have some. ``expert_parallel_size`` is 1 where each
expert is split over all ranks, as where the key is absent, and ``tensor_parallel_size`` where whole experts are dealt
out to them. ``routing`` says how unevenly tokens chose their experts, in the source's words. ``pipeline_parallel_size``
can only be 1.

``memory`` is what one rank was measured to hold, each part by itself or not at all: the GPU's memory as its driver
reports it, the weights, what lies outside PyTorch, CUDA graphs as captured and as the engine estimates them before it
sizes its KV cache, the peak of the activations by tokens and sequences of the batch, and a block of the KV cache.
``source`` says who measured: ``run`` (``capsim calibrate run``), ``engine`` (capsim on an engine that it started) or
``log`` (an engine in its log); ``version`` is the engine's, or torch's.

Counts are whole numbers, strictly increasing, at least two an axis. Seconds never fall along an axis: more work takes
no less time, a fall is noise, and interpolation would spread it over shapes that do not have it. Whoever writes a
profile settles that first, for example by isotonic regression, and keeps alignment cliffs apart.
"""

from __future__ import annotations

from math import inf
from pathlib import Path

from capsim import documents
from capsim.cost.profile_memory_reader import read_memory
from capsim.cost.profile_provenance_reader import read_provenance
from capsim.cost.profile_reader import Reader
from capsim.cost.profile_tables import RANGES, Attention, HeldOut, Operator, Profile
from capsim.documents import Document
from capsim.errors import BadInput, Fault

SCHEMA_VERSION = 1
_ATTENTION = ("mixed", "skew", "mixed_skew")
_EXPERTS = "moe"
_GIT_LFS = b"version https://git-lfs.github.com/spec/"


def load_profile(path: str | Path) -> Profile:
    """Read and check a profile.

    Raises:
        BadInput: the file cannot be read, is a Git LFS pointer, is damaged, has another version, or has faults: all
            of them, each with line, column and key.
    """
    path = Path(path)
    _refuse_pointer(path)
    faults: list[Fault] = []
    document = documents.load(path, faults=faults)
    _refuse_version(document)
    profile = _read(Reader(document, faults, document.data))
    if faults:
        raise BadInput(*faults)
    return profile


def _refuse_pointer(path: Path) -> None:
    if not path.is_file():
        return
    with path.open("rb") as file:
        if file.read(len(_GIT_LFS)) == _GIT_LFS:
            what = "is a Git LFS pointer, not the profile itself"
            raise BadInput(Fault(str(path), what, expected="the file that `git lfs pull` fetches"))


def _refuse_version(document: Document) -> None:
    """Another version may mean anything: nothing else is checked then."""
    found = document.data.get("schema_version")
    if found != SCHEMA_VERSION or isinstance(found, bool):
        what = "is missing" if found is None else f"is {found!r}"
        raise BadInput(document.fault(("schema_version",), what, str(SCHEMA_VERSION)))


def _read(reader: Reader) -> Profile:
    parts = reader.members(
        "schema_version",
        "provenance",
        "operators",
        "attention",
        "host",
        "ranges",
        optional=("graph_sizes", "held_out", "memory"),
    )
    attention, tags = _attention(parts["attention"])
    ranges = parts["ranges"].members(*RANGES)
    host = parts["host"].members("tag", "seconds")
    sizes = parts["graph_sizes"]
    profile = Profile(
        source=reader.document.source,
        provenance=read_provenance(parts["provenance"]),
        operators=tuple(_operator(item) for item in parts["operators"].items()),
        attention=attention,
        host=host["seconds"].seconds(),
        tags={**tags, "host": host["tag"].tag()},
        ranges={name: ranges[name].range() for name in RANGES},
        graph_sizes=sizes.axis(least=0) or () if sizes.present else (),
        held_out=tuple(_held_out(item) for item in parts["held_out"].items(least=0)),
        memory=read_memory(parts["memory"]) if parts["memory"].present else None,
    )
    if not reader.faults:
        _check_ranges(profile, ranges)
        _check_experts(profile, parts["operators"])
    return profile


def _operator(reader: Reader) -> Operator:
    parts = reader.members("name", "per", "times", "tag", "counts", "seconds", optional=("aligned",))
    aligned = parts["aligned"].members("multiple", "counts", "seconds") if parts["aligned"].present else None
    return Operator(
        name=parts["name"].text(),
        per=parts["per"].one_of("tokens", "sequences"),
        times=parts["times"].count(),
        tag=parts["tag"].tag(),
        seconds=parts["counts"].curve(parts["seconds"]),
        multiple=aligned["multiple"].count() if aligned else 0,
        aligned=aligned["counts"].curve(aligned["seconds"]) if aligned else None,
    )


def _attention(reader: Reader) -> tuple[Attention, dict[str, str]]:
    parts = reader.members("times", "prefill", "decode", optional=_ATTENTION)
    tables = {name: parts[name] for name in ("prefill", "decode", *_ATTENTION) if parts[name].present}
    attention = Attention(
        times=parts["times"].count(),
        prefill=parts["prefill"].grid("new", "past"),
        decode=parts["decode"].grid("decodes", "context"),
        mixed=parts["mixed"].mixed() if parts["mixed"].present else None,
        skew=parts["skew"].skew() if parts["skew"].present else None,
        mixed_skew=parts["mixed_skew"].skew(inf) if parts["mixed_skew"].present else None,
    )
    return attention, {name: table.tag_of() for name, table in tables.items()}


def _held_out(reader: Reader) -> HeldOut:
    parts = reader.members("regime", "size", "cases", "median", "p90", "bias")
    return HeldOut(
        parts["regime"].one_of("prefill", "decode", "mixed"),
        parts["size"].one_of("small", "large"),
        parts["cases"].count(),
        parts["median"].number(),
        parts["p90"].number(),
        parts["bias"].number(),
    )


def _check_ranges(profile: Profile, ranges: dict[str, Reader]) -> None:
    for name, (first, last) in _reach(profile).items():
        low, high = profile.ranges[name]
        if not first <= low <= high <= last:
            ranges[name].fault(f"measured from {low} to {high}", f"inside the table, {first} to {last}")


def _check_experts(profile: Profile, operators: Reader) -> None:
    """The experts of a layer run once in each layer that has some."""
    experts = profile.provenance.experts
    layers = profile.provenance.shapes["layers"] - experts.dense_layers if experts else 0
    for operator, reader in zip(profile.operators, operators.items(), strict=True):
        if operator.name == _EXPERTS and (operator.per, operator.times) != ("tokens", layers):
            found = f"the experts of {operator.times} layers, per {operator.per}"
            reader.fault(found, f"those of the {layers} layers with experts, per tokens")


def _reach(profile: Profile) -> dict[str, tuple[int, int]]:
    """How far the tables go on each axis; of several operators the shortest counts."""
    prefill, decode = profile.attention.prefill, profile.attention.decode
    reach = {
        "new": (prefill.rows[0], prefill.rows[-1]),
        "past": (prefill.columns[0], prefill.columns[-1]),
        "decodes": (decode.rows[0], decode.rows[-1]),
        "context": (decode.columns[0], decode.columns[-1]),
    }
    for per in ("tokens", "sequences"):
        points = [operator.seconds.points for operator in profile.operators if operator.per == per]
        if points:
            reach[per] = (max(each[0] for each in points), min(each[-1] for each in points))
    return reach
