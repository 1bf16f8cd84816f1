"""A step composed from kernel tables."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from calibrate.draft import Draft, Operator
from calibrate.importers import ImportRequest
from calibrate.importers.aiconfigurator.attention import AttentionTables
from calibrate.importers.aiconfigurator.ceilings import Ceilings, Journal
from calibrate.importers.aiconfigurator.csv_source import CsvSource
from calibrate.importers.aiconfigurator.experts import ExpertSplit, expert_operators
from calibrate.importers.aiconfigurator.gemm import GemmTable, gemm_calls, gemm_operators, gemms
from calibrate.importers.aiconfigurator.operators import all_reduce, elementwise_operators
from calibrate.importers.aiconfigurator.parquet_source import INSTALLED, ParquetSource, installed
from calibrate.importers.aiconfigurator.source import Heads, Source
from calibrate.importers.aiconfigurator.supplement import SupplementedSource
from calibrate.importers.aiconfigurator.transfer import Transfer, TransferredSource
from calibrate.provenance import Provenance
from calibrate.stated import stated_gpu
from capsim.catalog import Gpu, load_gpu
from capsim.catalog.model import check_dtype
from capsim.cost import Efficiency
from capsim.errors import BadInput, Fault

OPTIONS = ("release", "date", "gpu_name", "decode_attention", "decode_attention_by")
EXPERT_OPTIONS = ("routing", "expert_parallel_size")

_HEAD_DTYPE = "bfloat16"  # published fp8 checkpoints keep the output projection in 16 bits
_ORDER = (
    "embedding",
    "norm",
    "qkv_proj",
    "qk_norm",
    "rotary",
    "kv_cache_write",
    "o_proj",
    "all_reduce",
    "gate_up_proj",
    "activation",
    "down_proj",
    "router",
    "moe",
    "shared_gate_up_proj",
    "shared_activation",
    "shared_down_proj",
    "lm_head",
    "logits_gather",
    "sampler",
)
_GRAPH_SIZES = (1, 2, 4, *range(8, 256, 8), *range(256, 513, 16))
"""Token counts that vLLM captures by default where ``max_num_seqs`` is 256 or more (its ``CompilationConfig``)."""


def read(path: Path, request: ImportRequest) -> Draft:
    """Compose the steps of a model, dense or with experts, from kernel tables.

    Args:
        path: a folder of CSV files, a system's folder of Parquet files, or ``installed/SYSTEM`` for the tables of
            the installed package.
        request: model, precision, ranks; GPU, engine and version where the tables do not say.

    Raises:
        BadInput: the tables are damaged, or lack a dtype, heads, experts, an engine or a version.
    """
    model, ranks = request.model, request.tensor_parallel_size
    _check(request)
    key_value = model.kv_heads_of_rank(ranks)
    heads = Heads(model.attention_heads // ranks, key_value, model.head_dim, request.kv_dtype)
    measured = open_source(path, request)
    transfer = _transfer(request)
    source = measured if transfer is None else TransferredSource(measured, transfer)
    if "decode_attention" in request.options:
        source = _supplemented(source, request.options)
    layers = GemmTable(source.gemm(request.dtype), request.dtype)
    head = layers if request.dtype == _HEAD_DTYPE else GemmTable(source.gemm(_HEAD_DTYPE), _HEAD_DTYPE)
    prefill, decode = source.prefill(heads), source.decode(heads)
    gpu = _gpu(measured, request) if transfer is None else transfer.target.gpu
    ceilings = Ceilings.of(gpu) if transfer is None else transfer.target
    journal = Journal(sentences=list(source.notes))
    operators = gemm_operators(layers, gemms(model, ranks), gemm_calls(model), ceilings, journal)
    routing = ""
    if model.experts is not None:
        columns = source.experts(request.dtype)
        found, routing = expert_operators(columns, head, request, model.experts, ceilings, journal)
        operators += found
    lm_head = {"lm_head": (-(-model.vocabulary_size // ranks), model.hidden_size)}
    operators += gemm_operators(head, lm_head, {"lm_head": 1}, ceilings, journal, per="sequences")
    if ranks > 1:
        operators.append(all_reduce(*source.all_reduce(ranks), model, ranks, journal))
    tables = AttentionTables(prefill, decode, heads, ceilings, journal)
    assumed = elementwise_operators(model, gpu, ranks, request.kv_dtype)
    host = Efficiency().host_overhead if request.host_overhead is None else request.host_overhead
    operators = sorted(operators + assumed, key=lambda operator: _ORDER.index(operator.name))
    draft = Draft(
        provenance=_provenance(
            source,
            measured.gpu_name,
            request,
            gpu,
            routing,
            (*journal.notes(ceilings), *_gaps(source, request, assumed)),
        ),
        operators=tuple(operators),
        attention=tables.attention(model.layers),
        host=host,
        host_tag="assumed",
        ranges=_ranges(operators, tables),
        graph_sizes=_GRAPH_SIZES if source.engine == "vllm" else (),
    )
    if transfer is None:
        return draft
    return draft.derived_from(transfer.measured.gpu.name, decode_measured=bool(source.attributions))


def _supplemented(source: Source, options: Mapping[str, str]) -> Source:
    by = options.get("decode_attention_by")
    if by is None:
        what = "decode_attention needs whose figures they are and under which licence"
        raise BadInput(Fault("--option", what, "", "decode_attention_by=WHO"))
    return SupplementedSource(source, Path(options["decode_attention"]), by)


def _check(request: ImportRequest) -> None:
    request.refuse_other_options(OPTIONS if request.model.experts is None else (*OPTIONS, *EXPERT_OPTIONS))
    check_dtype("weight dtype", request.dtype)
    check_dtype("KV dtype", request.kv_dtype)


def open_source(path: Path, request: ImportRequest) -> Source:
    """The tables at a path: a folder of CSV files, or a system's folder of Parquet files.

    Args:
        path: ``installed/SYSTEM`` means the tables of the installed package.
        request: engine (``vllm`` where it is not given) and version.

    Raises:
        BadInput: there is nothing of the kind, or not for this engine and version.
    """
    engine = request.engine or "vllm"
    folder = installed(path) if path.parts[:1] == (INSTALLED,) and not path.exists() else path
    if (folder / "gemm").is_dir():
        return ParquetSource(folder, engine, request.engine_version)
    if (folder / f"gemm_{engine}_us.csv").is_file():
        return CsvSource(folder, engine, request.engine_version)
    expected = f"a folder with gemm_{engine}_us.csv, or with gemm/{engine}/VERSION/gemm_perf.parquet"
    raise BadInput(Fault(str(path), "holds no kernel tables of this engine", "", expected))


def _transfer(request: ImportRequest) -> Transfer | None:
    """How times become those of another GPU; None where they stay."""
    if request.scale_to is None:
        return None
    if request.gpu is None:
        raise BadInput(
            Fault("--scale-to", "needs the GPU that was measured", "", "--gpu with its catalog name")
        )
    return Transfer.between(stated_gpu(request.gpu), stated_gpu(request.scale_to, "--scale-to"))


def _gpu(source: Source, request: ImportRequest) -> Gpu:
    if request.gpu is not None:
        return stated_gpu(request.gpu)
    if not source.gpu_name:
        raise BadInput(f"{source.path}: the tables do not name their GPU, expected its name in the catalog")
    return load_gpu(source.gpu_name)


def _ranges(operators: list[Operator], tables: AttentionTables) -> dict[str, tuple[int, int]]:
    """Where every table rests on measurements; past KV was never measured."""
    reach = {
        per: min((o.aligned or o.curve).counts[-1] for o in operators if o.per == per and o.tag != "assumed")
        for per in ("tokens", "sequences")
    }
    decodes, context = tables.axes["decodes"], tables.axes["context"]
    return {
        "tokens": (1, reach["tokens"]),
        "sequences": (1, reach["sequences"]),
        "new": (tables.new[0], tables.new[-1]),
        "past": (0, 0),
        "decodes": (decodes[0], decodes[-1]),
        "context": (context[0], context[-1]),
    }


def _gaps(source: Source, request: ImportRequest, assumed: list[Operator]) -> list[str]:
    """What the source lacks altogether."""
    names = ", ".join(operator.name for operator in assumed)
    gaps = [
        f"{names}: no times in the source, by formula from bytes and the data sheet as in capsim's roofline",
        "prefill and decode in one batch: no times in the source, their attention is added up; so is that of "
        "several chunks, and decodes of unequal length cost what equal ones of the same sum cost",
        "kernels were timed alone, mean of 6 repetitions after 3 warm-ups, clocks and spread not recorded; each is "
        "in a CUDA graph, so launches cost nothing",
        "the source does not record when it measured; a date is that of its publication",
    ]
    if request.host_overhead is None:
        gaps.append(
            "host: no times in the source; the default of capsim's roofline, for an engine that schedules ahead and "
            "hides most of its work behind the GPU's"
        )
    if source.engine == "vllm":
        gaps.append("graph_sizes: vLLM's default capture sizes for max_num_seqs of 256 or more")
    if request.dtype != _HEAD_DTYPE:
        wide = "lm_head is" if request.model.experts is None else "lm_head and router are"
        gaps.append(f"{wide} {_HEAD_DTYPE}, as in published {request.dtype} checkpoints")
    return gaps


def _provenance(
    source: Source, gpu_name: str, request: ImportRequest, gpu: Gpu, routing: str, notes: tuple[str, ...]
) -> Provenance:
    release = request.options.get("release", source.release)
    date = request.options.get("date")
    return Provenance(
        gpu=gpu.name,
        gpu_name=gpu_name or request.options.get("gpu_name", request.gpu or gpu.name),
        engine=source.engine,
        engine_version=source.engine_version,
        model=request.model,
        dtype=request.dtype,
        kv_dtype=request.kv_dtype,
        tensor_parallel_size=request.tensor_parallel_size,
        expert_parallel_size=ExpertSplit.of(request).holders,
        routing=routing,
        date=date or "not recorded",
        measured_by="NVIDIA (aiconfigurator)",
        licence="Apache-2.0",
        attribution=(
            f"Kernel times from NVIDIA {release} (https://github.com/ai-dynamo/aiconfigurator), Apache-2.0, Copyright "
            "NVIDIA CORPORATION & AFFILIATES; selected, interpolated, smoothed and composed by capsim, see the notes"
            + "".join(f"; {other}" for other in source.attributions)
        ),
        importer="aiconfigurator",
        files=tuple(source.files),
        notes=notes,
    )
