"""A profile under construction: typed parts, and the text of the file that `capsim.cost.load_profile` reads."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capsim.catalog import Model
from capsim.cost import Profile, load_profile
from capsim.cost.profile_tables import MODEL_SHAPES, RANGES
from capsim.errors import BadInput, Fault

SCHEMA_VERSION = 1

_DIGITS = 6  # significant digits of a figure: far finer than any timer, and stable in a diff


@dataclass(frozen=True)
class SourceFile:
    """A file that figures were taken from.

    Attributes:
        name: relative to the path that was imported.
        sha256: of its bytes, hexadecimal.
    """

    name: str
    sha256: str

    @classmethod
    def of(cls, path: Path, name: str | None = None) -> SourceFile:
        """The file at `path`, under its own name or another."""
        return cls(name or path.name, hashlib.sha256(path.read_bytes()).hexdigest())


@dataclass(frozen=True)
class Provenance:
    """Where the figures come from and what they hold for.

    Attributes:
        gpu: capsim's catalog name.
        gpu_name: the GPU that was measured, as the source names it.
        derived_from: its catalog name where it is another one than `gpu`; else empty.
        engine, engine_version: whose kernels were measured.
        model: what was measured; its name and sizes are written.
        dtype, kv_dtype: of weights and of KV.
        tensor_parallel_size: ranks.
        expert_parallel_size: as many where whole experts are dealt out to the ranks, else 1.
        routing: how unevenly tokens chose their experts, as the source names it; empty where it does not say.
        date: of the measurement, ISO 8601.
        measured_by: person or project.
        licence: SPDX name.
        attribution: sentence that must accompany the figures.
        importer: the importer's name, or ``calibrate run``.
        files: what was read.
        notes: what the source lacks and how it was filled, one sentence each.
    """

    gpu: str
    gpu_name: str
    derived_from: str = field(default="", kw_only=True)
    engine: str
    engine_version: str
    model: Model
    dtype: str
    kv_dtype: str
    tensor_parallel_size: int
    expert_parallel_size: int = field(default=1, kw_only=True)
    routing: str = field(default="", kw_only=True)
    date: str
    measured_by: str
    licence: str
    attribution: str
    importer: str
    files: tuple[SourceFile, ...] = ()
    notes: tuple[str, ...] = ()

    def members(self) -> dict[str, Any]:
        """The object of the file."""
        members: dict[str, Any] = dict(vars(self))
        shapes = {shape: getattr(self.model, shape) for shape in MODEL_SHAPES}
        members["model"] = {"name": self.model.name, **shapes}
        if self.model.experts is not None:
            members["model"]["experts"] = asdict(self.model.experts)
        else:
            del members["expert_parallel_size"]
        for optional in ("derived_from", "routing"):
            if not members[optional]:
                del members[optional]
        members["files"] = [vars(file) for file in self.files]
        members["notes"] = list(self.notes)
        return members


@dataclass(frozen=True)
class Curve:
    """Seconds of one call over counts.

    Attributes:
        counts: strictly increasing, at least two, each at least 1.
        seconds: as many, never falling; see `calibrate.monotone`.
    """

    counts: tuple[int, ...]
    seconds: tuple[float, ...]

    @classmethod
    def of(cls, counts: Iterable[float], seconds: Iterable[float]) -> Curve:
        """From columns of any number type."""
        return cls(tuple(int(count) for count in counts), tuple(float(value) for value in seconds))

    def members(self) -> dict[str, Any]:
        """The lists of the file."""
        return {"counts": list(self.counts), "seconds": rounded(self.seconds)}


@dataclass(frozen=True)
class Operator:
    """Any kernel but attention.

    Attributes:
        name: the field's name, e.g. ``qkv_proj``.
        per: ``tokens`` or ``sequences`` of the batch.
        times: calls in one step.
        tag: ``measured``, ``fitted``, ``derived`` or ``assumed``.
        curve: seconds of one call.
        aligned: seconds at counts that are multiples of `multiple`, where the kernel prefers them.
        multiple: the alignment; 0 without one.
    """

    name: str
    per: str
    times: int
    tag: str
    curve: Curve
    aligned: Curve | None = None
    multiple: int = 0

    def members(self) -> dict[str, Any]:
        """The object of the file."""
        members: dict[str, Any] = {"name": self.name, "per": self.per, "times": self.times, "tag": self.tag}
        members |= self.curve.members()
        if self.aligned is not None:
            members["aligned"] = {"multiple": self.multiple, **self.aligned.members()}
        return members


@dataclass(frozen=True)
class Grid:
    """A table over several axes.

    Attributes:
        tag: ``measured``, ``fitted``, ``derived`` or ``assumed``.
        axes: strictly increasing counts (or ratios) by axis name, outermost first.
        values: seconds of one layer's call (or alpha), shape: the lengths of the axes.
        quantity: the key of the values in the file, ``seconds`` or ``alpha``.
    """

    tag: str
    axes: Mapping[str, tuple[float, ...]]
    values: NDArray[np.float64]
    quantity: str = "seconds"

    def members(self) -> dict[str, Any]:
        """The object of the file."""
        axes = {name: list(axis) for name, axis in self.axes.items()}
        return {"tag": self.tag, **axes, self.quantity: rounded(self.values.tolist())}


GRIDS = ("prefill", "decode", "mixed", "skew", "mixed_skew")
"""Tables of attention, in the order of the file."""


@dataclass(frozen=True)
class Attention:
    """Attention of one layer; see `capsim.cost.load_profile` for the meaning of each table.

    Attributes:
        times: layers.
        prefill: axes ``new``, ``past``.
        decode: axes ``decodes``, ``context``.
        mixed: axes ``new``, ``past``, ``decodes``, ``context``, or None.
        skew: axes ``decodes``, ``ratio``, quantity ``alpha``, or None.
        mixed_skew: the same beside a chunk.
    """

    times: int
    prefill: Grid
    decode: Grid
    mixed: Grid | None = None
    skew: Grid | None = None
    mixed_skew: Grid | None = None

    def members(self) -> dict[str, Any]:
        """The object of the file."""
        grids = {name: getattr(self, name) for name in GRIDS}
        present = {name: grid.members() for name, grid in grids.items() if grid is not None}
        return {"times": self.times, **present}


@dataclass(frozen=True)
class HeldOut:
    """Relative errors, (table - measured) / measured, of shapes that were kept out of the tables.

    Attributes:
        regime: ``prefill``, ``decode`` or ``mixed``.
        size: ``small`` or ``large``.
        cases: how many shapes.
        median, p90: of the absolute relative error.
        bias: mean of the signed one.
    """

    regime: str
    size: str
    cases: int
    median: float
    p90: float
    bias: float

    def members(self) -> dict[str, Any]:
        """The object of the file."""
        return {name: rounded(value) for name, value in vars(self).items()}


@dataclass(frozen=True)
class Draft:
    """A whole profile.

    Attributes:
        provenance: where it comes from.
        operators: in the order of execution.
        attention: its tables.
        host: seconds of each step that the GPU waits for the CPU.
        host_tag: ``measured``, ``fitted``, ``derived`` or ``assumed``.
        ranges: lowest and highest measured count by the names in `RANGES`.
        graph_sizes: token counts captured as CUDA graphs; empty without graphs.
        held_out: errors on shapes that the tables do not hold.
        memory: what a rank was measured to hold, as the file states it; empty where nothing was.
    """

    provenance: Provenance
    operators: tuple[Operator, ...]
    attention: Attention
    host: float
    host_tag: str
    ranges: Mapping[str, tuple[int, int]]
    graph_sizes: tuple[int, ...] = ()
    held_out: tuple[HeldOut, ...] = field(default=())
    memory: Mapping[str, Any] = field(default_factory=dict)

    def text(self) -> str:
        """The file: JSON with a line for each table row, and the same bytes for the same draft."""
        members: dict[str, Any] = {
            "schema_version": SCHEMA_VERSION,
            "provenance": self.provenance.members(),
            "operators": [operator.members() for operator in self.operators],
            "attention": self.attention.members(),
            "host": {"tag": self.host_tag, "seconds": rounded(self.host)},
            "graph_sizes": list(self.graph_sizes),
            "ranges": {name: list(self.ranges[name]) for name in RANGES},
            "held_out": [case.members() for case in self.held_out],
        }
        if self.memory:
            members["memory"] = self.memory
        return profile_text(members)

    def derived_from(self, gpu: str, *, decode_measured: bool = False) -> Draft:
        """The same figures, called derived where they are another GPU's, carried over.

        Args:
            gpu: catalog name of the one that was measured.
            decode_measured: decode attention alone was measured on the profile's own GPU.
        """
        attention = self.attention
        decode = (
            attention.decode
            if decode_measured
            else replace(attention.decode, tag=_derived(attention.decode.tag))
        )
        return replace(
            self,
            provenance=replace(self.provenance, derived_from=gpu),
            operators=tuple(replace(each, tag=_derived(each.tag)) for each in self.operators),
            attention=replace(
                attention,
                prefill=replace(attention.prefill, tag=_derived(attention.prefill.tag)),
                decode=decode,
            ),
        )

    def profile(self) -> Profile:
        """The profile as capsim will read it.

        Raises:
            BadInput: the draft breaks a rule of the format.
        """
        with TemporaryDirectory() as folder:
            path = Path(folder) / "draft.json"
            path.write_text(self.text(), encoding="utf-8")
            return load_profile(path)

    def write(self, path: Path) -> Profile:
        """Write the file, once it is known that capsim can read it, and return what capsim read.

        Raises:
            BadInput: the draft breaks a rule of the format, or the file cannot be written.
        """
        profile = self.profile()
        try:
            path.write_text(self.text(), encoding="utf-8")
        except OSError as error:
            raise BadInput(Fault(str(path), f"cannot be written: {error.strerror or error}")) from error
        return profile


def _derived(tag: str) -> str:
    return "assumed" if tag == "assumed" else "derived"


def rounded(value: Any) -> Any:
    """A number, or a list of them at any depth, to the significant digits that a file keeps."""
    if isinstance(value, (list, tuple)):
        return [rounded(item) for item in value]
    if isinstance(value, (float, np.floating)) and math.isfinite(value):
        return float(f"{value:.{_DIGITS}g}")
    return value


def profile_text(members: Mapping[str, Any]) -> str:
    """The text of a profile: JSON with a line for each table row."""
    return _json(dict(members)) + "\n"


def _json(value: Any, indent: str = "") -> str:
    """JSON text in which a list of plain values is one line."""
    inner = indent + " "
    if isinstance(value, dict) and value:
        items = [f"{inner}{json.dumps(key)}: {_json(item, inner)}" for key, item in value.items()]
        return "{\n" + ",\n".join(items) + f"\n{indent}}}"
    if isinstance(value, list) and any(isinstance(item, (dict, list, str)) for item in value):
        return "[\n" + ",\n".join(inner + _json(item, inner) for item in value) + f"\n{indent}]"
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
