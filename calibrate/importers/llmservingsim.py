"""LLMServingSim's profiler (KAIST, MIT): kernel times of one layer inside vLLM, by batch shape, in microseconds.

A folder ``tpN`` holds ``dense.csv`` (layer, tokens, time_us), ``per_sequence.csv`` (layer, sequences, time_us),
``attention.csv`` (prefill_chunk, kv_prefill, n_decode, kv_decode, time_us) and perhaps ``skew.csv``, which counts
unless ``meta.yaml`` says ``skew_fit.enabled: false``; ``meta.yaml`` stands in it or above it. ``kv_prefill`` are tokens
before the chunk, ``kv_decode`` those before the decode's own.

Attention was measured on powers of two, sometimes with other shapes between, whose cross products are incomplete: the
tables take the powers of two, and the shapes between are held out. Where there are none, the errors are those of tables
with every second length left out, at the lengths left out, and so larger than those of the tables themselves.

Source: github.com/casys-kaist/LLMServingSim, profiler/core/categories.py and skew.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from calibrate.assumed import all_reduce
from calibrate.curves import curve_of, reaching, reaching_prefill
from calibrate.draft import Attention, Draft, Operator
from calibrate.importers import ImportRequest
from calibrate.importers.llmservingsim_attention import Shapes, attention_of, held_out_errors
from calibrate.importers.llmservingsim_meta import Meta, read_meta
from calibrate.importers.llmservingsim_skew import COLUMNS as SKEW_COLUMNS
from calibrate.importers.llmservingsim_skew import with_skew
from calibrate.provenance import Provenance, SourceFile
from calibrate.table import Table, closest, read_table
from capsim.catalog import load_gpu
from capsim.errors import BadInput, Fault

OPTIONS = ("graph_sizes", "skew", "measured_by", "licence", "attribution")
_AS_EQUAL = "they cost as much as equal ones of the same mean"
_MICROSECOND = 1e-6
_DENSE = ("layer", "tokens", "time_us")
_SEQUENCE = ("layer", "sequences", "time_us")
_ATTENTION = ("prefill_chunk", "kv_prefill", "n_decode", "kv_decode", "time_us")

_CALLS = {  # our name; calls in one layer, or in one step where 0
    "embedding": ("embedding", 0),
    "layernorm": ("norm", 2),
    "qkv_proj": ("qkv_proj", 1),
    "qk_norm": ("qk_norm", 1),
    "rotary_emb": ("rotary", 1),
    "o_proj": ("o_proj", 1),
    "gate_up_proj": ("gate_up_proj", 1),
    "act_fn": ("activation", 1),
    "down_proj": ("down_proj", 1),
    "final_layernorm": ("final_norm", 0),
}
_ENDS = {"chunks": "new", "n_decode": "decodes", "kv": "context"}  # axis by the profiler's word in meta.yaml
_SEQUENCE_CALLS = {"lm_head": ("lm_head", 1), "sampler": ("sampler", 1)}


def read(path: Path, request: ImportRequest) -> Draft:
    """The draft of one folder of LLMServingSim's profiler.

    Options: ``graph_sizes`` (comma-separated token counts that the engine captures as CUDA graphs), ``skew`` (``on`` or
    ``off``: whether unequal decode lengths are charged, where `meta.yaml` is not to decide), ``measured_by``,
    ``licence`` and ``attribution`` for figures of one's own.

    Raises:
        BadInput: a file is missing or damaged, holds another model, dtype or number of ranks, or a table has holes.
    """
    request.refuse_other_options(OPTIONS)
    request.refuse_experts()
    folder = _folder(path, request.tensor_parallel_size)
    meta = read_meta(folder, request)
    files = [meta.file]
    operators, notes = _operators(folder, request, meta.gpu, files)
    table = read_table(_noted(folder, "attention.csv", files), _ATTENTION)
    shapes = Shapes.of(table)
    _refuse_cut_off(shapes, meta)
    attention, attention_notes = attention_of(shapes, request.model.layers)
    notes += attention_notes
    attention, skew_notes = _skewed(folder, request, meta, attention, files)
    notes += [*skew_notes, *_general_notes(request)]
    draft = Draft(
        provenance=_provenance(request, meta, files, notes),
        operators=tuple(map(reaching, operators)),
        attention=replace(attention, prefill=reaching_prefill(attention.prefill)),
        host=request.host_overhead or 0.0,
        host_tag="assumed",
        ranges={**_reach(operators), **shapes.ranges()},
        graph_sizes=_graph_sizes(request),
    )
    errors, note = held_out_errors(draft, shapes)
    return replace(draft, held_out=errors, provenance=_provenance(request, meta, files, [*notes, note]))


def _skewed(
    folder: Path, request: ImportRequest, meta: Meta, attention: Attention, files: list[SourceFile]
) -> tuple[Attention, list[str]]:
    """The attention with what unequal decode lengths cost, where they are to be charged."""
    asked = request.options.get("skew")
    if asked not in {None, "on", "off"}:
        raise BadInput(Fault("--option skew", f"{asked!r}", "", "on or off"))
    if not (folder / "skew.csv").is_file():
        if asked == "on":
            raise BadInput(Fault(str(folder), "holds no skew.csv", "--option skew", "off"))
        return attention, [f"Unequal decode lengths were not measured: {_AS_EQUAL}."]
    if asked == "off" or (asked is None and not meta.skewed):
        why = (
            "by --option skew=off"
            if asked
            else "meta.yaml has skew_fit.enabled: false; --option skew=on charges them"
        )
        return attention, [f"Unequal decode lengths are not charged ({why}): {_AS_EQUAL}."]
    return with_skew(attention, read_table(_noted(folder, "skew.csv", files), SKEW_COLUMNS))


def _folder(path: Path, ranks: int) -> Path:
    """The folder of the tables: `path`, or its ``tpN``."""
    if (path / "dense.csv").is_file():
        named = path.resolve().name
        if named.startswith("tp") and named[2:].isdigit() and int(named[2:]) != ranks:
            raise BadInput(Fault(str(path), f"the folder is of {named}", "", f"tensor_parallel_size {ranks}"))
        return path
    if (path / f"tp{ranks}").is_dir():
        return path / f"tp{ranks}"
    raise BadInput(
        Fault(str(path), "holds no dense.csv", "", f"a folder of the profiler, or one with tp{ranks}")
    )


def _noted(folder: Path, name: str, files: list[SourceFile]) -> Path:
    """The path of a file, which is added to those that were read."""
    if (folder / name).is_file():
        files.append(SourceFile.of(folder / name))
    return folder / name


def _operators(
    folder: Path, request: ImportRequest, gpu: str, files: list[SourceFile]
) -> tuple[tuple[Operator, ...], list[str]]:
    if (folder / "moe.csv").is_file():
        raise BadInput(Fault(str(folder / "moe.csv"), "experts are not covered", "", "a dense model"))
    model = request.model
    calls = {layer: (name, each * model.layers or 1) for layer, (name, each) in _CALLS.items()}
    if not model.qk_norm:
        del calls["qk_norm"]
    dense = read_table(_noted(folder, "dense.csv", files), _DENSE)
    found, moves = _curves(dense, "tokens", calls)
    sequence = read_table(_noted(folder, "per_sequence.csv", files), _SEQUENCE)
    last, last_moves = _curves(sequence, "sequences", _SEQUENCE_CALLS)
    operators, notes = [*found, *last], [_move_note({**moves, **last_moves})]
    if request.tensor_parallel_size > 1:
        tokens, ranks = found[0].curve.counts[-1], request.tensor_parallel_size
        communication, note = all_reduce(model, load_gpu(gpu), ranks, tokens)
        operators.insert(len(found), communication)
        notes.append(note)
    return tuple(operators), notes


def _curves(
    table: Table, per: str, calls: dict[str, tuple[str, int]]
) -> tuple[list[Operator], dict[str, float]]:
    """Operators of a table in the order of `calls`, and the largest relative move of each."""
    layers = table.texts("layer")
    for row, layer in enumerate(layers):
        if layer not in calls:
            what = f"{str(layer)!r} is not an operator of this model, and its time would be lost"
            raise BadInput(table.fault(row, "layer", what, "", closest(str(layer), calls)))
    missing = [layer for layer in calls if layer not in layers]
    if missing:
        what = f"has no rows of {', '.join(missing)}: the file may be cut off"
        raise BadInput(Fault(table.source, what, "", ", ".join(calls)))
    most = max(int((layers == layer).sum()) for layer in calls)
    operators, moves = [], {}
    for layer, (name, times) in calls.items():
        rows = table.where(layers == layer)
        if len(rows) < most:
            what = f"has {len(rows)} counts where another operator has {most}: the file may be cut off"
            raise BadInput(rows.fault(len(rows) - 1, "layer", f"{layer} {what}"))
        seconds = rows.numbers("time_us") * _MICROSECOND
        curve, moves[name] = curve_of(table.source, layer, rows.counts(per), seconds)
        operators.append(Operator(name, per, times, "measured", curve))
    return operators, moves


def _refuse_cut_off(shapes: Shapes, meta: Meta) -> None:
    """A table that ends before the grid of the profiler does has lost its last rows."""
    reached = {name: int(shapes.counts[axis].max()) for name, axis in _ENDS.items()}
    faults = [
        Fault(
            shapes.source,
            f"ends at {name} {reached[name]}: the file may be cut off",
            "",
            f"{end} as in meta.yaml",
        )
        for name, end in meta.ends.items()
        if reached[name] < end
    ]
    if faults:
        raise BadInput(*faults)


def _provenance(
    request: ImportRequest, meta: Meta, files: Iterable[SourceFile], notes: Iterable[str]
) -> Provenance:
    options = request.options
    return Provenance(
        gpu=meta.gpu,
        gpu_name=meta.gpu_name,
        engine="vllm",
        engine_version=meta.engine_version,
        model=request.model,
        dtype=request.dtype,
        kv_dtype=request.kv_dtype,
        tensor_parallel_size=request.tensor_parallel_size,
        date=meta.date,
        measured_by=options.get("measured_by", "CASYS Lab, KAIST, with LLMServingSim's profiler"),
        licence=options.get("licence", "MIT"),
        attribution=options.get(
            "attribution",
            "LLMServingSim, github.com/casys-kaist/LLMServingSim, copyright (c) 2024 CASYS Lab at KAIST, MIT licence",
        ),
        importer="llmservingsim",
        files=tuple(files),
        notes=tuple(notes),
    )


def _general_notes(request: ImportRequest) -> list[str]:
    host = request.host_overhead or 0.0
    return [
        "Kernels were timed in eager mode, without CUDA graphs and torch.compile, with random weights: fused kernels "
        "of a compiled engine may be faster.",
        f"The CPU's part of a step was not measured: assumed to be {1e3 * host:g} ms in every step.",
        "Beyond the ranges, operators go on at the mean slope of the upper half of their counts, and chunks by pairs "
        "of query and key at the rate of the longest one measured.",
        "From 16 on nearly all token counts are multiples of 4 or 16: counts off the alignment are not known apart.",
    ]


def _move_note(moves: dict[str, float]) -> str:
    name = max(moves, key=lambda each: moves[each])
    below = sum(move <= 0.05 for move in moves.values())
    return (
        f"Operators were made not to fall with the count: {name} moved farthest, by {100 * moves[name]:.0f} % at one "
        f"count; {below} of {len(moves)} moved by 5 % at most."
    )


def _reach(operators: Iterable[Operator]) -> dict[str, tuple[int, int]]:
    """Counts that every measured operator covers, by ``tokens`` and ``sequences``."""
    reach = {}
    for per in ("tokens", "sequences"):
        counts = [each.curve.counts for each in operators if each.per == per and each.tag == "measured"]
        reach[per] = (max(each[0] for each in counts), min(each[-1] for each in counts))
    return reach


def _graph_sizes(request: ImportRequest) -> tuple[int, ...]:
    stated = request.options.get("graph_sizes", "")
    try:
        return tuple(sorted({int(size) for size in stated.split(",") if size.strip()}))
    except ValueError as error:
        raise BadInput(
            Fault("--option graph_sizes", f"{stated!r}", "", "whole numbers, as 1,2,4,8")
        ) from error
