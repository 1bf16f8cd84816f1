"""Measured step costs as a file: the schema, and everything that can be wrong with one.

A profile is one JSON object (version 1; every key is required, none other is allowed)::

    {
      "schema_version": 1,
      "provenance": {
        "gpu": "h200", "engine": "vllm", "engine_version": "0.19.0",
        "model": {"name": "llama-3.1-8b", "layers": 32, "hidden_size": 4096, "intermediate_size": 14336,
                  "attention_heads": 32, "kv_heads": 8, "head_dim": 128, "vocabulary_size": 128256},
        "dtype": "bfloat16", "kv_dtype": "bfloat16", "tensor_parallel_size": 1,
        "date": "2026-08-21", "measured_by": "...", "licence": "Apache-2.0", "attribution": "..."
      },
      "ranges": {"tokens": [1, 8192], "sequences": [1, 256], "new": [1, 8192], "past": [0, 8192],
                 "decodes": [1, 256], "context": [16, 8192]},
      "tables": {
        "tokens":            {"tag": "measured", "tokens": [1, ...], "seconds": [...]},
        "sequences":         {"tag": "measured", "sequences": [1, ...], "seconds": [...]},
        "prefill_attention": {"tag": "fitted", "new": [1, ...], "past": [0, ...], "seconds": [[...], ...]},
        "decode_attention":  {"tag": "measured", "decodes": [1, ...], "context": [1, ...], "seconds": [[...], ...]},
        "host":              {"tag": "assumed", "seconds": 0.0005}
      }
    }

``tokens``: seconds of all operators that depend on the tokens of the batch, all layers together. ``sequences``:
output projection and sampling, by sequences (decodes and chunks). ``prefill_attention``: one chunk, by its new
tokens (rows) and the tokens before them (columns), all layers. ``decode_attention``: by decodes (rows) and tokens of
context a sequence (columns), all layers. ``host``: seconds of each step that the GPU waits for the CPU. A tag is
``measured``, ``fitted`` or ``assumed``. ``ranges`` say where the tables rest on measurements; a table may reach
further, as a fit does, never less far.

Counts are whole numbers, strictly increasing, at least two an axis. Seconds never fall along an axis: more work
takes no less time, a fall is noise or a kernel's alignment cliff, and interpolation would spread it over shapes that
do not have it. Whoever writes a profile settles that first, for example by isotonic regression.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from capsim import documents
from capsim.catalog.model import Model
from capsim.cost.curve import Curve, Grid
from capsim.cost.profile_reader import Reader
from capsim.documents import Document
from capsim.errors import BadInput, Fault

SCHEMA_VERSION = 1
MODEL_SHAPES = (
    "layers",
    "hidden_size",
    "intermediate_size",
    "attention_heads",
    "kv_heads",
    "head_dim",
    "vocabulary_size",
)
_TEXTS = (
    "gpu",
    "engine",
    "engine_version",
    "dtype",
    "kv_dtype",
    "date",
    "measured_by",
    "licence",
    "attribution",
)
RANGES = ("tokens", "sequences", "new", "past", "decodes", "context")
_TABLES = ("tokens", "sequences", "prefill_attention", "decode_attention", "host")
_GIT_LFS = b"version https://git-lfs.github.com/spec/"


@dataclass(frozen=True)
class Provenance:
    """Where a profile's figures come from and what they hold for.

    Attributes:
        gpu, engine, engine_version: what was measured.
        model: the model's name.
        shapes: its sizes, the keys of `MODEL_SHAPES`.
        dtype, kv_dtype: of weights and of KV, e.g. ``bfloat16``.
        tensor_parallel_size: ranks.
        date: of the measurement.
        measured_by: person or project.
        licence: under which the figures may be used.
        attribution: sentence that must accompany them.
    """

    gpu: str
    engine: str
    engine_version: str
    model: str
    shapes: dict[str, int]
    dtype: str
    kv_dtype: str
    tensor_parallel_size: int
    date: str
    measured_by: str
    licence: str
    attribution: str


@dataclass(frozen=True)
class Profile:
    """A profile file, checked. See the module for the meaning of each table.

    Attributes:
        source: the file.
        provenance: what the figures hold for.
        ranges: lowest and highest count that was measured, by axis (the names in `RANGES`).
        tags: ``measured``, ``fitted`` or ``assumed`` by table.
        tokens, sequences, prefill_attention, decode_attention: seconds.
        host: seconds a step.
    """

    source: str
    provenance: Provenance
    ranges: dict[str, tuple[int, int]]
    tags: dict[str, str]
    tokens: Curve
    sequences: Curve
    prefill_attention: Grid
    decode_attention: Grid
    host: float

    def check(self, model: Model, weight_dtype: str, kv_dtype: str, tensor_parallel_size: int) -> None:
        """Refuse a profile that was measured for something else.

        Raises:
            BadInput: every difference in the model's shapes, the dtypes and the ranks, naming both values.
        """
        stated = self.provenance
        pairs: list[tuple[str, object, object]] = [
            (f"model.{shape}", stated.shapes[shape], getattr(model, shape)) for shape in MODEL_SHAPES
        ]
        pairs += [
            ("dtype", stated.dtype, weight_dtype),
            ("kv_dtype", stated.kv_dtype, kv_dtype),
            ("tensor_parallel_size", stated.tensor_parallel_size, tensor_parallel_size),
        ]
        faults = [
            Fault(
                self.source,
                f"the profile of {stated.model} holds for {found}, the scenario asks for {asked} ({model.name})",
                key=f"provenance.{key}",
            )
            for key, found, asked in pairs
            if found != asked
        ]
        if faults:
            raise BadInput(*faults)


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
    parts = reader.members("schema_version", "provenance", "ranges", "tables")
    ranges = parts["ranges"].members(*RANGES)
    tables = parts["tables"].members(*_TABLES)
    profile = Profile(
        source=reader.document.source,
        provenance=_provenance(parts["provenance"]),
        ranges={name: ranges[name].range() for name in RANGES},
        tags={name: tables[name].tag() for name in _TABLES},
        tokens=tables["tokens"].curve("tokens"),
        sequences=tables["sequences"].curve("sequences"),
        prefill_attention=tables["prefill_attention"].grid("new", "past"),
        decode_attention=tables["decode_attention"].grid("decodes", "context"),
        host=tables["host"].members("tag", "seconds")["seconds"].seconds(),
    )
    if not reader.faults:
        _check_ranges(profile, ranges)
    return profile


def _check_ranges(profile: Profile, ranges: dict[str, Reader]) -> None:
    for name, axis in _axes(profile).items():
        low, high = profile.ranges[name]
        if not axis[0] <= low <= high <= axis[-1]:
            expected = f"inside the table, {axis[0]} to {axis[-1]}"
            ranges[name].fault(f"measured from {low} to {high}", expected)


def _provenance(reader: Reader) -> Provenance:
    parts = reader.members("model", "tensor_parallel_size", *_TEXTS)
    model = parts["model"].members("name", *MODEL_SHAPES)
    return Provenance(
        model=model["name"].text(),
        shapes={shape: model[shape].count() for shape in MODEL_SHAPES},
        tensor_parallel_size=parts["tensor_parallel_size"].count(),
        **{name: parts[name].text() for name in _TEXTS},
    )


def _axes(profile: Profile) -> dict[str, tuple[int, ...]]:
    prefill, decode = profile.prefill_attention, profile.decode_attention
    axes = (
        profile.tokens.points,
        profile.sequences.points,
        prefill.rows,
        prefill.columns,
        decode.rows,
        decode.columns,
    )
    return dict(zip(RANGES, axes, strict=True))
