"""Vidur's operator times (Microsoft, MIT): one CSV of kernel times in microseconds, for several GPUs and models.

Columns: device, model, tp, op, num_tokens, batch_size, prefill_chunk, kv_cache, time_us, source. Operators without
attention count by ``num_tokens``; ``attn_prefill`` by ``prefill_chunk`` and ``kv_cache`` (tokens before the chunk),
``attn_decode`` by ``batch_size`` and ``kv_cache``. Times are of one layer, in float16, and whole microseconds.

Vidur measures no output projection and no sampling, and one of a layer's two residual additions. Where prefill was
measured after past tokens for some chunks only, the table is filled from chunks without past: every pair of a query
and a past key costs as much as a pair in the longest chunk, but never less than reading the past keys and values.

Source: github.com/microsoft/vidur, vidur/profiling.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from calibrate.assumed import all_reduce, lm_head
from calibrate.curves import curve_of, grid_of, reaching
from calibrate.draft import Attention, Draft, Grid, Operator
from calibrate.importers import ImportRequest
from calibrate.provenance import Provenance, SourceFile
from calibrate.stated import stated_gpu
from calibrate.table import Table, hole_text, holes, pivot, read_table
from capsim.catalog import Gpu, load_model
from capsim.catalog.model import DTYPE_BYTES
from capsim.errors import BadInput, Fault

OPTIONS = ("device", "source_model", "date", "attribution", "licence", "measured_by")
_COLUMNS = ("device", "model", "tp", "op", "num_tokens", "batch_size", "prefill_chunk", "kv_cache", "time_us")
_DTYPE = "float16"
_MICROSECOND = 1e-6
_OPERATORS = {  # calls in one layer, or in one step where 0
    "emb": ("embedding", 0),
    "input_layernorm": ("input_norm", 1),
    "attn_pre_proj": ("qkv_proj", 1),
    "attn_rope": ("rotary", 1),
    "attn_kv_cache_save": ("kv_cache_write", 1),
    "attn_post_proj": ("o_proj", 1),
    "post_attention_layernorm": ("post_attention_norm", 1),
    "mlp_up_proj": ("gate_up_proj", 1),
    "mlp_act": ("activation", 1),
    "mlp_down_proj": ("down_proj", 1),
    "add": ("residual", 2),
}
_MOST_SEQUENCES = 256
_LEAST_DECODES, _LEAST_CONTEXTS = 4, 3
"""A decode table needs so many batch sizes and contexts to be a table, and batches from 1 on."""


def read(path: Path, request: ImportRequest) -> Draft:
    """The draft of one GPU and model of the file.

    Options: ``device`` and ``source_model`` as the file names them, ``date``, ``attribution``, ``licence`` and
    ``measured_by``.

    Raises:
        BadInput: the file is damaged, holds another dtype, or is incomplete: everything that is missing is listed.
    """
    request.refuse_other_options(OPTIONS)
    request.refuse_experts()
    for name, dtype in (("dtype", request.dtype), ("kv_dtype", request.kv_dtype)):
        if dtype != _DTYPE:
            raise BadInput(Fault(str(path), f"Vidur measures {_DTYPE}, not {dtype}", "", f"{name} {_DTYPE}"))
    if request.gpu is None:
        raise BadInput(
            "Vidur measures no output projection: --gpu must name the GPU whose data sheet prices it"
        )
    gpu = stated_gpu(request.gpu)
    rows = _selected(read_table(path, _COLUMNS), request, gpu)
    _refuse_incomplete(rows)
    operators, notes = _operators(rows, request, gpu)
    attention, attention_notes = _attention(rows, request, gpu)
    tokens = [each.curve.counts for each in operators if each.per == "tokens" and each.tag == "measured"]
    return Draft(
        provenance=_provenance(path, rows, request, gpu, [*notes, *attention_notes]),
        operators=tuple(map(reaching, operators)),
        attention=attention,
        host=request.host_overhead or 0.0,
        host_tag="assumed",
        ranges={
            "tokens": (max(each[0] for each in tokens), min(each[-1] for each in tokens)),
            "sequences": (1, _MOST_SEQUENCES),
            "new": _ends(attention.prefill, "new"),
            "past": _ends(attention.prefill, "past"),
            "decodes": _ends(attention.decode, "decodes"),
            "context": _ends(attention.decode, "context"),
        },
    )


def _selected(table: Table, request: ImportRequest, gpu: Gpu) -> Table:
    """The rows of the request."""
    devices, models, ranks = (table.texts(name) for name in ("device", "model", "tp"))
    device = request.options.get("device", gpu.name.split("-")[0])
    stated = request.options.get("source_model")
    wanted = {
        name for name in np.unique(models).tolist() if name == stated or (not stated and _is(name, request))
    }
    rows = table.where(
        (devices == device) & np.isin(models, list(wanted)) & (ranks == str(request.tensor_parallel_size))
    )
    if not len(rows):
        found = sorted({f"{d} {m} tp {r}" for d, m, r in zip(devices, models, ranks, strict=True)})
        what = f"has no rows of device {device}, {request.model.name}, tp {request.tensor_parallel_size}"
        raise BadInput(
            Fault(table.source, what, "", f"one of {', '.join(found)} (--option device, source_model)")
        )
    rows.only("model")
    return rows


def _is(name: str, request: ImportRequest) -> bool:
    try:
        return load_model(name).name == request.model.name
    except BadInput:  # a model that the catalog does not know is another one
        return False


def _refuse_incomplete(rows: Table) -> None:
    """Raise everything that a profile needs and the rows lack."""
    operators = rows.texts("op")
    missing = [name for name in (*_OPERATORS, "attn_prefill", "attn_decode") if name not in operators]
    faults = [Fault(rows.source, "is not measured", name) for name in missing]
    if "attn_decode" not in missing:
        decode = rows.where(operators == "attn_decode")
        axes, grid = pivot(
            {name: decode.counts(name) for name in ("batch_size", "kv_cache")}, decode.numbers("time_us")
        )
        batches, contexts = axes.values()
        small = len(batches) < _LEAST_DECODES or len(contexts) < _LEAST_CONTEXTS or batches[0] > 1
        if small or np.isnan(grid).any():
            what = (
                f"{len(decode)} shapes of batch {batches[0]} to {batches[-1]} at {len(contexts)} contexts "
                f"({', '.join(map(str, contexts[:4]))}{', ...' if len(contexts) > 4 else ''}), which leave "
                f"{int(np.isnan(grid).sum())} of {grid.size} combinations open"
            )
            expected = (
                f"all combinations of {_LEAST_DECODES} batch sizes from 1 on and {_LEAST_CONTEXTS} contexts"
            )
            faults.append(Fault(rows.source, what, "attn_decode", expected))
    if faults:
        raise BadInput(*faults)


def _operators(rows: Table, request: ImportRequest, gpu: Gpu) -> tuple[list[Operator], list[str]]:
    layers, ranks = request.model.layers, request.tensor_parallel_size
    operators, moves = [], {}
    for op, (name, each) in _OPERATORS.items():
        measured = rows.where(rows.texts("op") == op)
        seconds = measured.numbers("time_us") * _MICROSECOND
        curve, moves[name] = curve_of(rows.source, op, measured.counts("num_tokens"), seconds)
        operators.append(Operator(name, "tokens", each * layers or 1, "measured", curve))
    norm = next(operator for operator in operators if operator.name == "input_norm")
    operators.append(Operator("final_norm", "tokens", 1, "assumed", norm.curve))
    head, head_note = lm_head(request.model, gpu, ranks, request.dtype, _MOST_SEQUENCES)
    farthest = max(moves, key=lambda name: moves[name])
    notes = [
        f"Operators were made not to fall with the count: {farthest} moved farthest, by {100 * moves[farthest]:.0f} %.",
        "The second residual addition and the final norm were not measured: assumed as the first, and as a layer's.",
        head_note,
        "Times are whole microseconds: those of a few microseconds are uncertain by some 10 %.",
        f"The CPU's part of a step was not measured: assumed to be {1e3 * (request.host_overhead or 0.0):g} ms.",
    ]
    if ranks > 1:
        communication, note = all_reduce(request.model, gpu, ranks, norm.curve.counts[-1])
        operators.append(communication)
        notes.append(note)
    return [*operators, head], notes


def _attention(rows: Table, request: ImportRequest, gpu: Gpu) -> tuple[Attention, list[str]]:
    operators = rows.texts("op")
    decode_rows = rows.where(operators == "attn_decode")
    axes = {"decodes": decode_rows.counts("batch_size"), "context": decode_rows.counts("kv_cache") + 1}
    decode, decode_move = grid_of(
        rows.source, "attn_decode", axes, decode_rows.numbers("time_us") * _MICROSECOND
    )
    prefill, notes = _prefill(rows.where(operators == "attn_prefill"), request, gpu)
    notes.append(
        f"Decode attention was made not to fall, which moved single shapes by at most {100 * decode_move:.1f} %."
    )
    notes.append("A chunk together with decodes was not measured: the parts are added.")
    notes.append(
        "Unequal decode lengths were not measured: they cost as much as equal ones of the same mean."
    )
    return Attention(request.model.layers, prefill, decode), notes


def _prefill(rows: Table, request: ImportRequest, gpu: Gpu) -> tuple[Grid, list[str]]:
    """Measured where it was, filled elsewhere by the rule in this module's docstring."""
    columns = {"new": rows.counts("prefill_chunk"), "past": rows.counts("kv_cache")}
    axes, measured = pivot(columns, rows.numbers("time_us") * _MICROSECOND)
    found = holes(axes, measured)
    if axes["past"][0] != 0 or np.isnan(measured[:, 0]).any():
        what = f"chunks without past tokens are missing: {hole_text(found)}"
        raise BadInput(Fault(rows.source, what, "attn_prefill", "each chunk at kv_cache 0"))
    new, past = np.asarray(axes["new"], dtype=np.float64), np.asarray(axes["past"], dtype=np.float64)
    if len(past) == 1:
        past = np.asarray([0.0, *new], dtype=np.float64)
        measured = np.hstack([measured, np.full((len(new), len(new)), np.nan)])
    rule = _by_pairs(new, past, measured[:, 0], request, gpu)
    known = ~np.isnan(measured) & (past > 0)
    notes = []
    if np.isnan(measured).any():
        notes.append(
            f"{int(np.isnan(measured).sum())} of {measured.size} chunks after past tokens were not measured: each pair "
            "costs as much as in the longest chunk without past, and never less than reading the past keys and values."
        )
        if known.any():
            errors = (rule - measured)[known] / measured[known]
            notes.append(
                f"On the {int(known.sum())} that were measured, the rule errs by {100 * np.median(errors):+.0f} % in "
                f"the median, {100 * errors.min():+.0f} to {100 * errors.max():+.0f} %."
            )
    values = np.where(np.isnan(measured), rule, measured)
    counts = {"new": np.repeat(new, len(past)), "past": np.tile(past, len(new))}
    tag = "fitted" if notes else "measured"
    grid, _ = grid_of(rows.source, "attn_prefill", counts, values.ravel(), tag)
    return grid, notes


def _by_pairs(
    new: NDArray[np.float64],
    past: NDArray[np.float64],
    alone: NDArray[np.float64],
    request: ImportRequest,
    gpu: Gpu,
) -> NDArray[np.float64]:
    """Seconds of a chunk after past tokens, shape (new, past), from chunks without past, shape (new,)."""
    model = request.model
    per_pair = alone[-1] / (new[-1] * (new[-1] + 1) / 2)
    kv_heads = model.kv_heads_of_rank(request.tensor_parallel_size)
    token_bytes = 2 * kv_heads * model.head_dim * DTYPE_BYTES[request.kv_dtype]
    pairs = alone[:, None] + per_pair * new[:, None] * past[None, :]
    return np.asarray(np.maximum(pairs, token_bytes * past[None, :] / gpu.memory_bandwidth), dtype=np.float64)


def _ends(grid: Grid, axis: str) -> tuple[int, int]:
    counts = grid.axes[axis]
    return int(counts[0]), int(counts[-1])


def _provenance(path: Path, rows: Table, request: ImportRequest, gpu: Gpu, notes: list[str]) -> Provenance:
    options = request.options
    return Provenance(
        gpu=gpu.name,
        gpu_name=rows.only("device"),
        engine=request.engine or "sarathi-serve",
        engine_version=request.engine_version or "not stated",
        model=request.model,
        dtype=request.dtype,
        kv_dtype=request.kv_dtype,
        tensor_parallel_size=request.tensor_parallel_size,
        date=options.get("date", "not stated"),
        measured_by=options.get("measured_by", "Microsoft, with Vidur's profiler"),
        licence=options.get("licence", "MIT"),
        attribution=options.get(
            "attribution",
            "Vidur, github.com/microsoft/vidur, copyright (c) Microsoft Corporation, MIT licence",
        ),
        importer="vidur",
        files=(SourceFile.of(path),),
        notes=tuple(notes),
    )
