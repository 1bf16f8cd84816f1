"""aiconfigurator's tables as Parquet files: the sample's rows in that form, and the installed package's."""

from __future__ import annotations

import csv
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from calibrate.importers import ImportRequest
from calibrate.importers.aiconfigurator import read
from capsim.catalog import load_gpu, load_model
from capsim.cost import RooflineCost
from capsim.errors import BadInput

SAMPLE = Path(__file__).parent / "samples" / "aiconfigurator"
VERSION = "0.24.0"
REQUEST = ImportRequest(load_model("llama-3.1-8b"), tensor_parallel_size=2)
MIXTURE = ImportRequest(
    load_model("mixtral-8x7b"), tensor_parallel_size=2, options={"expert_parallel_size": "2"}
)


def parquet() -> Any:
    pytest.importorskip("pyarrow")
    return import_module("pyarrow"), import_module("pyarrow.parquet")


def rows_of(name: str, prefix: str) -> list[dict[str, str]]:
    """One row for each cell of a column `prefix` + count, which is then the value of `prefix`."""
    with (SAMPLE / name).open(newline="") as file:
        wide = list(csv.DictReader(file))
    spread = [column for column in wide[0] if column.startswith(prefix) and column[len(prefix) :].isdigit()]
    return [
        {**row, prefix: column[len(prefix) :], "us": row[column]}
        for row in wide
        for column in spread
        if row[column]
    ]


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    arrow, files = parquet()
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write_table(arrow.Table.from_pylist([{"device": "NVIDIA H200", **row} for row in rows]), path)


def attention(kind: str, prefix: str) -> list[dict[str, Any]]:
    return [
        {
            "batch_size": int(row["batch"]),
            "isl": int(row[prefix]) if kind == "context" else 1,
            "step": 0 if kind == "context" else int(row[prefix]) - 1,
            "num_heads": int(row["q_heads"]),
            "num_key_value_heads": int(row["kv_heads"]),
            "head_dim": int(row["head_dim"]),
            "window_size": window,
            "attn_dtype": row["attn_dtype"],
            "kv_cache_dtype": row["kv_dtype"],
            "latency": float(row["us"]) / 1e3 / (1 + window),
        }
        for row in rows_of(f"{kind}_attention_vllm_us.csv", prefix)
        for window in (0, 128)  # windowed attention is quicker, and must not be taken for full attention
    ]


def experts() -> list[dict[str, Any]]:
    return [
        {
            "moe_dtype": row["moe_dtype"],
            "num_tokens": int(row["t"]),
            "hidden_size": int(row["hidden"]),
            "inter_size": int(row["inter"]),
            "topk": int(row["topk"]),
            "num_experts": int(row["experts"]),
            "moe_tp_size": int(row["tp"]),
            "moe_ep_size": int(row["ep"]),
            "distribution": row["routing"],
            "latency": float(row["us"]) / 1e3,
        }
        for row in rows_of("moe_us.csv", "t")
        if row["engine"] == "vllm"
    ]


@pytest.fixture
def system(tmp_path: Path) -> Path:
    """The sample in the layout of the package."""
    folder = tmp_path / "h200_sxm"
    gemm = [
        {
            "gemm_dtype": row["gemm_dtype"],
            "latency": float(row["us"]) / 1e3,
            **{a: int(row[a]) for a in "mnk"},
        }
        for row in rows_of("gemm_vllm_us.csv", "m")
    ]
    write(folder / "gemm" / "vllm" / VERSION / "gemm_perf.parquet", gemm)
    for kind, prefix in (("context", "isl"), ("generation", "ctx")):
        path = folder / "attention" / "vllm" / VERSION / f"{kind}_attention_perf.parquet"
        write(path, attention(kind, prefix))
    write(folder / "moe" / "vllm" / VERSION / "moe_perf.parquet", experts())
    with (SAMPLE / "all_reduce_us.csv").open(newline="") as file:
        reduces = [
            {
                "library": row["library"],
                "num_gpus": int(row["gpus"]),
                "message_size": int(row["message_bytes"]) // 2,
                "latency": float(row["us"]) / 1e3,
                "kernel_source": "vLLM_custom_graph" if row["mode"] == "cuda-graph" else "vLLM_custom_eager",
                "op_name": "all_reduce",
                "nccl_dtype": "half",
            }
            for row in csv.DictReader(file)
        ]
    for library, version, name in (
        ("vllm", VERSION, "custom_allreduce_perf"),
        ("nccl", "2.26.2", "nccl_perf"),
    ):
        write(
            folder / "comm" / library / version / f"{name}.parquet",
            [r for r in reduces if r["library"] == library],
        )
    return folder


@pytest.mark.parametrize("asked", [REQUEST, MIXTURE], ids=["dense", "experts"])
def test_both_forms_of_the_same_rows_give_the_same_profile(system: Path, asked: ImportRequest) -> None:
    from_parquet = read(system, asked)
    from_csv = read(SAMPLE, replace(asked, gpu="h200"))
    assert from_parquet.provenance.routing == from_csv.provenance.routing
    assert from_parquet.provenance.expert_parallel_size == from_csv.provenance.expert_parallel_size
    assert from_parquet.provenance.gpu == "h200"
    assert from_parquet.provenance.gpu_name == "NVIDIA H200"
    assert from_parquet.provenance.engine_version == VERSION
    assert from_parquet.ranges == from_csv.ranges
    for one, other in zip(from_parquet.operators, from_csv.operators, strict=True):
        assert (one.name, one.tag, one.curve.counts) == (other.name, other.tag, other.curve.counts)
        assert one.curve.seconds == pytest.approx(
            other.curve.seconds, rel=1e-12
        )  # milliseconds round otherwise
    for grid in ("prefill", "decode"):
        assert getattr(from_parquet.attention, grid).values == pytest.approx(
            getattr(from_csv.attention, grid).values, rel=1e-12
        )


def test_a_version_that_is_not_there_is_refused_with_those_that_are(system: Path) -> None:
    with pytest.raises(BadInput, match=r"no version '0\.9', expected one of 0\.24\.0"):
        read(system, replace(REQUEST, engine_version="0.9"))


def test_a_truncated_parquet_file_is_refused(system: Path) -> None:
    path = system / "gemm" / "vllm" / VERSION / "gemm_perf.parquet"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(BadInput, match="cannot be read as Parquet"):
        read(system, REQUEST)


def test_a_git_lfs_pointer_is_refused(system: Path) -> None:
    path = system / "gemm" / "vllm" / VERSION / "gemm_perf.parquet"
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
    with pytest.raises(BadInput, match="Git LFS pointer"):
        read(system, REQUEST)


def test_a_missing_column_is_refused(system: Path) -> None:
    path = system / "gemm" / "vllm" / VERSION / "gemm_perf.parquet"
    write(path, [{"gemm_type": "bfloat16", "m": 1, "n": 1, "k": 1, "latency": 1.0}])
    with pytest.raises(BadInput, match="gemm_dtype"):
        read(system, REQUEST)


def test_a_missing_column_of_the_experts_is_refused(system: Path) -> None:
    path = system / "moe" / "vllm" / VERSION / "moe_perf.parquet"
    write(path, [{name: cell for name, cell in row.items() if name != "topk"} for row in experts()])
    with pytest.raises(BadInput, match="the column topk is missing"):
        read(system, MIXTURE)


def test_tables_without_experts_serve_dense_models_only(system: Path) -> None:
    path = system / "moe" / "vllm" / VERSION / "moe_perf.parquet"
    path.unlink()
    assert read(system, REQUEST).provenance.routing == ""
    with pytest.raises(BadInput, match="cannot be read"):
        read(system, MIXTURE)


def test_installed_tables_need_the_package() -> None:
    try:
        import_module("aiconfigurator_core")
    except ModuleNotFoundError:
        with pytest.raises(BadInput, match="pip install aiconfigurator-core"):
            read(Path("installed/h200_sxm"), REQUEST)
    else:
        with pytest.raises(BadInput, match=r"names no system with tables.*h100_sxm"):
            read(Path("installed/nowhere"), REQUEST)


@pytest.mark.parametrize(
    ("system_name", "gpu"), [("h100_sxm", "h100-sxm"), ("a100_sxm", "a100-80gb-sxm"), ("l40s", "l40s")]
)
def test_the_installed_package_gives_profiles_of_other_gpus(system_name: str, gpu: str) -> None:
    pytest.importorskip("aiconfigurator_core")
    request = replace(REQUEST, tensor_parallel_size=1)
    draft = read(Path("installed") / system_name, request)
    profile = draft.profile()
    assert draft.provenance.gpu == gpu
    assert "aiconfigurator-core" in draft.provenance.attribution
    roofline = RooflineCost(request.model, load_gpu(gpu))
    least = roofline.operators.streamed_weight_bytes() / load_gpu(gpu).memory_bandwidth
    weights = sum(o.times * o.curve.seconds[0] for o in draft.operators if o.tag != "assumed")
    # Between the data sheet and a third of it: a table of another GPU or in another unit would be far off.
    assert least <= weights <= 3 * least
    assert profile.provenance.gpu == gpu


@pytest.mark.parametrize(("system_name", "gpu"), [("h100_sxm", "h100-sxm"), ("l40s", "l40s")])
@pytest.mark.parametrize("model", ["mixtral-8x7b", "qwen3-30b-a3b"])
def test_the_installed_package_has_experts_on_other_gpus(model: str, system_name: str, gpu: str) -> None:
    pytest.importorskip("aiconfigurator_core")
    request = replace(MIXTURE, model=load_model(model))
    profile = read(Path("installed") / system_name, request).profile()
    assert profile.provenance.gpu == gpu
    assert profile.provenance.expert_parallel
    tokens = next(operator for operator in profile.operators if operator.name == "moe").seconds
    # Work grows 16,000-fold and whole experts are read once: the time must grow, and by less than the work.
    assert 10 < tokens.at(16384) / tokens.at(1) < 16384
