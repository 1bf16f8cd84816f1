"""What a profile holds: where its figures come from, and tables of seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from capsim.catalog.model import Experts, Model
from capsim.cost.curve import Curve, Grid
from capsim.cost.profile_memory import ProfileMemory
from capsim.errors import BadInput, Fault

MODEL_SHAPES = (
    "layers",
    "hidden_size",
    "intermediate_size",
    "attention_heads",
    "kv_heads",
    "head_dim",
    "vocabulary_size",
)
RANGES = ("tokens", "sequences", "new", "past", "decodes", "context")


@dataclass(frozen=True)
class Provenance:
    """Where a profile's figures come from and what they hold for.

    Attributes:
        gpu: catalog name of the GPU; `gpu_name` is what the source calls it.
        gpu_name, engine, engine_version: what was measured.
        derived_from: catalog name of the GPU that was measured, where it is another one than `gpu`; else empty.
        model: the model's name.
        shapes: its sizes, the keys of `MODEL_SHAPES`.
        experts: the model's; None: every layer is dense.
        dtype, kv_dtype: of weights and of KV, e.g. ``bfloat16``.
        tensor_parallel_size: ranks.
        expert_parallel_size: ranks that whole experts are dealt out to; 1: each expert is split over all ranks.
        routing: how unevenly tokens chose their experts, as the source names it; empty where it does not say.
        date: of the measurement.
        measured_by: person or project.
        licence: under which the figures may be used.
        attribution: sentence that must accompany them.
        importer: what wrote the profile.
        files: name and sha256 of each source file.
        notes: what the source lacks and how it was filled, a sentence each.
    """

    gpu: str
    gpu_name: str
    engine: str
    engine_version: str
    model: str
    shapes: Mapping[str, int]
    derived_from: str = field(default="", kw_only=True)
    experts: Experts | None = field(default=None, kw_only=True)
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
    files: tuple[Mapping[str, str], ...]
    notes: tuple[str, ...]

    @property
    def expert_parallel(self) -> bool:
        """Whether whole experts were dealt out to the ranks."""
        return self.expert_parallel_size > 1


@dataclass(frozen=True)
class Operator:
    """One operator of a step: seconds of a call by the tokens or the sequences of the batch.

    Attributes:
        name: the field's name, e.g. ``qkv_proj``.
        per: ``tokens`` or ``sequences``.
        times: calls a step.
        tag: ``measured``, ``fitted``, ``derived`` or ``assumed``.
        seconds: of one call.
        multiple: counts that are multiples of it follow `aligned`, because the kernel has an alignment cliff; 0: none.
        aligned: seconds of one call at those counts.
    """

    name: str
    per: str
    times: int
    tag: str
    seconds: Curve
    multiple: int = 0
    aligned: Curve | None = None

    def at(self, count: int) -> float:
        """Seconds of all calls of a step with so many tokens or sequences."""
        if self.aligned is not None and count % self.multiple == 0:
            return self.times * self.aligned.at(count)
        return self.times * self.seconds.at(count)


@dataclass(frozen=True)
class Mixed:
    """Seconds of one layer's attention for one chunk together with equal decodes.

    Attributes:
        new, past, decodes, context: counts, strictly increasing.
        seconds: ``seconds[new][past][decodes][context]``.
    """

    new: tuple[int, ...]
    past: tuple[int, ...]
    decodes: tuple[int, ...]
    context: tuple[int, ...]
    seconds: tuple[Any, ...]


@dataclass(frozen=True)
class Skew:
    """What unequal decode lengths cost: ``t(mean) + alpha * (t(all as long as the longest) - t(mean))``.

    Attributes:
        decodes: counts, strictly increasing; between them alpha is linear.
        ratio: longest over mean context, strictly increasing from 1; alpha holds from one to the next, so that a run
            of decode steps stays piecewise linear.
        alpha: shares in [0, 1], ``alpha[decodes][ratio]``; beside a chunk they may exceed 1, because kernels split long
            contexts among thread blocks in pure decodes alone.
    """

    decodes: tuple[int, ...]
    ratio: tuple[float, ...]
    alpha: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Attention:
    """Attention of one layer; `times` layers.

    Attributes:
        times: layers.
        prefill: seconds of a chunk, by new tokens (rows) and tokens before them (columns).
        decode: seconds of decodes, by their number (rows) and context each (columns).
        mixed: both together, None where the source has none: then they are added.
        skew: unequal decode lengths, None where the source has none: then the mean context counts.
        mixed_skew: the same beside a chunk, None where the source has none: then as without a chunk.
    """

    times: int
    prefill: Grid
    decode: Grid
    mixed: Mixed | None = None
    skew: Skew | None = None
    mixed_skew: Skew | None = None


@dataclass(frozen=True)
class HeldOut:
    """Relative errors of measured shapes that were kept out of the tables.

    Attributes:
        regime: ``prefill``, ``decode`` or ``mixed``.
        size: ``small`` or ``large``.
        cases: how many shapes.
        median, p90: of the absolute relative error.
        bias: mean signed relative error, table minus measurement.
    """

    regime: str
    size: str
    cases: int
    median: float
    p90: float
    bias: float


@dataclass(frozen=True)
class Profile:
    """A profile file, checked. The schema stands in `profile_file`.

    Attributes:
        source: the file.
        provenance: what the figures hold for.
        operators: everything but attention.
        attention: attention.
        host: seconds of each step in which the GPU waits for the CPU.
        tags: ``measured``, ``fitted``, ``derived`` or ``assumed`` by attention table and for ``host``.
        graph_sizes: batch sizes captured as CUDA graphs; a smaller batch is padded to the next one.
        ranges: lowest and highest count that was measured, by axis (the names in `RANGES`).
        held_out: how well the tables predict what they have not seen.
        memory: what a rank holds, None where nothing of it was measured.
    """

    source: str
    provenance: Provenance
    operators: tuple[Operator, ...]
    attention: Attention
    host: float
    tags: Mapping[str, str]
    ranges: Mapping[str, tuple[int, int]]
    graph_sizes: tuple[int, ...] = ()
    held_out: tuple[HeldOut, ...] = field(default=())
    memory: ProfileMemory | None = None

    def check(
        self,
        model: Model,
        weight_dtype: str,
        kv_dtype: str,
        tensor_parallel_size: int,
        expert_parallel: bool = False,
    ) -> None:
        """Refuse a profile that was measured for something else.

        Args:
            model: what is asked for; so are the others.
            weight_dtype: e.g. ``bfloat16``.
            kv_dtype: e.g. ``bfloat16``.
            tensor_parallel_size: ranks.
            expert_parallel: whole experts are dealt out to the ranks.

        Raises:
            BadInput: every difference in the model's shapes and experts, the dtypes and the ranks, naming both values.
        """
        stated = self.provenance
        pairs: list[tuple[str, object, object]] = [
            (f"model.{shape}", stated.shapes[shape], getattr(model, shape)) for shape in MODEL_SHAPES
        ]
        pairs += _expert_pairs(stated.experts, model.experts)
        pairs += [
            ("dtype", stated.dtype, weight_dtype),
            ("kv_dtype", stated.kv_dtype, kv_dtype),
            ("tensor_parallel_size", stated.tensor_parallel_size, tensor_parallel_size),
            (
                "expert_parallel_size",
                stated.expert_parallel_size,
                tensor_parallel_size if expert_parallel else 1,
            ),
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


def _expert_pairs(found: Experts | None, asked: Experts | None) -> list[tuple[str, object, object]]:
    """What the profile states of the experts, and what is asked for."""
    if found is None or asked is None:
        return [("model.experts", _named(found), _named(asked))]
    names = [each.name for each in fields(Experts)]
    return [(f"model.experts.{name}", getattr(found, name), getattr(asked, name)) for name in names]


def _named(experts: Experts | None) -> str:
    return "no experts" if experts is None else f"{experts.count} experts"
