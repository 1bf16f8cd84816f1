"""The importer of aiconfigurator's kernel tables: its rules, and damaged input."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from calibrate.draft import Draft
from calibrate.importers import ImportRequest, importer
from calibrate.importers.aiconfigurator import read
from calibrate.importers.aiconfigurator.ceilings import MEASURED_CEILINGS, Ceilings
from calibrate.importers.aiconfigurator.gemm import GemmTable
from capsim.catalog import load_gpu, load_model
from capsim.errors import BadInput

SAMPLE = Path(__file__).parent / "samples" / "aiconfigurator"
OPTIONS = {"release": "aiconfigurator-core 0.12.0", "date": "2026-08-21", "gpu_name": "NVIDIA H200"}
COPY, PRODUCT = 4.3e12, 788e12
"""Measured ceilings of an H200: bytes/s of a large copy, FLOP/s of a large bf16 matrix product."""


def request(model: str = "llama-3.1-8b", **changes: object) -> ImportRequest:
    return replace(ImportRequest(load_model(model), gpu="h200", options=OPTIONS), **changes)  # type: ignore[arg-type]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SAMPLE, tmp_path / "tables"))


def edit(path: Path, change: Callable[[str], str]) -> None:
    path.write_text(change(path.read_text()))


def scaled(path: Path, first: int, factor: float) -> None:
    """Multiply all cells from a column on."""
    header, *rows = path.read_text().splitlines()
    cells = [row.split(",") for row in rows]
    rows = [
        ",".join([*row[:first], *(f"{float(cell) * factor:.6g}" if cell else "" for cell in row[first:])])
        for row in cells
    ]
    path.write_text("\n".join([header, *rows]) + "\n")


# Rules


@pytest.fixture(scope="module")
def draft() -> Draft:
    return read(SAMPLE, request())


def curve_of(draft: Draft, name: str) -> dict[int, float]:
    curve = next(operator.curve for operator in draft.operators if operator.name == name)
    return dict(zip(curve.counts, curve.seconds, strict=True))


def tags(draft: Draft) -> dict[str, str]:
    return {operator.name: operator.tag for operator in draft.operators}


def test_a_layer_of_the_table_is_measured_and_one_between_its_shapes_fitted(draft: Draft) -> None:
    assert tags(draft)["qkv_proj"] == tags(draft)["o_proj"] == "measured"
    assert tags(draft)["gate_up_proj"] == tags(draft)["down_proj"] == tags(draft)["lm_head"] == "fitted"
    assert {name for name, tag in tags(draft).items() if tag == "assumed"} == {
        "embedding",
        "norm",
        "rotary",
        "kv_cache_write",
        "activation",
        "sampler",
    }


def test_a_layer_between_two_shapes_is_their_weighted_mean() -> None:
    columns = {
        "m": np.asarray([1.0, 2.0] * 4),
        "n": np.repeat([100.0, 100.0, 300.0, 300.0], 2),
        "k": np.repeat([10.0, 20.0, 10.0, 20.0], 2),
    }
    # Exactly linear in n and in k, so that the rule must be exact: 5 + m n + k.
    columns["seconds"] = 5 + columns["m"] * columns["n"] + columns["k"]
    table = GemmTable(columns, "bfloat16")
    counts, seconds, filled = table.line(150, 15)
    assert counts.tolist() == [1, 2]
    assert seconds == pytest.approx([5 + 150 + 15, 5 + 300 + 15])
    assert "linear between" in filled
    _, above, filled = table.line(600, 10)
    assert above == pytest.approx([2 * (5 + 300 + 10), 2 * (5 + 600 + 10)])
    assert "in proportion to (300, 10)" in filled


def test_fp8_layers_keep_aligned_counts_apart_and_bf16_layers_do_not(draft: Draft) -> None:
    assert all(operator.aligned is None for operator in draft.operators)
    fp8 = read(SAMPLE, request("llama-3.1-70b", dtype="fp8", tensor_parallel_size=8))
    apart = {operator.name: operator.aligned for operator in fp8.operators if operator.aligned}
    assert set(apart) == {"qkv_proj", "o_proj", "gate_up_proj", "down_proj"}
    gate_up = apart["gate_up_proj"]
    assert gate_up is not None
    aligned = dict(zip(gate_up.counts, gate_up.seconds, strict=True))
    # 513 tokens take half as long again as 512 in the table, far from what one token more of work costs.
    assert curve_of(fp8, "gate_up_proj")[513] > 1.3 * aligned[512]
    assert all(count % 8 == 0 for count in aligned)
    assert all(count % 8 for count in curve_of(fp8, "gate_up_proj"))


def test_rows_above_a_ceiling_are_raised_and_counted(draft: Draft) -> None:
    ceilings = Ceilings.of(load_gpu("h200"))
    assert (ceilings.bandwidth, ceilings.flops["bfloat16"]) == (COPY, PRODUCT)
    assert MEASURED_CEILINGS["h200"][0] == COPY
    note = next(note for note in draft.provenance.notes if "ceilings" in note)
    assert "788 TFLOP/s bfloat16" in note
    least = 2 * 2048 * 4096 * 4096 / PRODUCT
    # The table has 84.36 us here, 815 TFLOP/s.
    assert curve_of(draft, "o_proj")[2048] == pytest.approx(least)
    assert least > 84.36e-6
    # A GPU whose ceilings nobody measured has those of its data sheet.
    assert Ceilings.of(load_gpu("h100-sxm")).bandwidth == load_gpu("h100-sxm").memory_bandwidth


def test_cells_that_were_not_measured_are_counted_and_grow_with_their_bytes(draft: Draft) -> None:
    assert any("40 of 192 cells" in note for note in draft.provenance.notes)
    decode = draft.attention.decode
    rows, columns = decode.axes["decodes"], decode.axes["context"]
    largest = decode.values[rows.index(2048), columns.index(65536)]
    # Far beyond the measured cells the KV cache is read at the rate of the largest of them, 4.3 TB/s.
    assert largest == pytest.approx(2048 * 65536 * 4096 / COPY, rel=0.02)


def test_past_is_assumed_and_outside_the_ranges(draft: Draft) -> None:
    prefill = draft.attention.prefill
    new, past = prefill.axes["new"], prefill.axes["past"]
    without = prefill.values[:, 0]
    pair = without[-1] / (16384 * 16385 / 2)
    row = new.index(2048)
    added = prefill.values[row, past.index(8192)] - without[row]
    assert added == pytest.approx(2048 * 8192 * pair)
    # One new token after a long past reads the KV cache like a decode.
    decode = draft.attention.decode
    alone = np.interp(32769, decode.axes["context"], decode.values[0])
    assert prefill.values[0, past.index(32768)] == pytest.approx(alone, rel=0.03)  # 3 %: made monotone
    assert draft.ranges["past"] == (0, 0)
    assert draft.ranges["new"] == (1, 16384)


def test_all_reduces_are_the_engines_own_in_a_graph() -> None:
    two = read(SAMPLE, request(tensor_parallel_size=2))
    curve = curve_of(two, "all_reduce")
    assert curve[1] == pytest.approx(4.583e-6, rel=0.02)  # 8 KiB, 4.640 us, pooled with 4.553 us at 16 KiB
    assert curve[8192] == pytest.approx(280.6e-6)  # 64 MiB
    assert two.ranges["tokens"] == (1, 8192)
    assert next(operator.times for operator in two.operators if operator.name == "all_reduce") == 65


def test_host_time_is_assumed_and_can_be_stated(draft: Draft) -> None:
    assert (draft.host, draft.host_tag) == (0.5e-3, "assumed")
    assert read(SAMPLE, request(host_overhead=2e-3)).host == 2e-3


def test_kv_in_fp8_reads_its_own_rows(draft: Draft) -> None:
    fp8 = read(SAMPLE, request(kv_dtype="fp8"))
    assert fp8.attention.decode.values.max() < draft.attention.decode.values.max()
    assert fp8.profile().provenance.kv_dtype == "fp8"


def test_the_registry_knows_it() -> None:
    assert importer("aiconfigurator") is read


# Damaged and wrong input


def fails(folder: Path, asked: ImportRequest) -> str:
    with pytest.raises(BadInput) as caught:
        read(folder, asked)
    return str(caught.value)


def test_a_truncated_file_is_refused_with_its_line(folder: Path) -> None:
    path = folder / "gemm_vllm_us.csv"
    edit(path, lambda text: text[: len(text) - 200])
    message = fails(folder, request())
    assert "gemm_vllm_us.csv:21" in message
    assert "cut off" in message


def test_milliseconds_for_microseconds_are_refused(folder: Path) -> None:
    scaled(folder / "gemm_vllm_us.csv", 3, 1e-3)
    assert "another unit" in fails(folder, request())


@pytest.mark.parametrize("kind", ["generation", "context"])
def test_nanoseconds_for_microseconds_are_refused(folder: Path, kind: str) -> None:
    scaled(folder / f"{kind}_attention_vllm_us.csv", 6, 1e3)
    assert "another unit" in fails(folder, request())


@pytest.mark.parametrize(
    ("file", "column", "wrong"),
    [
        ("gemm_vllm_us.csv", "gemm_dtype", "gemm_type"),
        ("context_attention_vllm_us.csv", "q_heads", "heads"),
        ("generation_attention_vllm_us.csv", "batch", "batch_size"),
        ("all_reduce_us.csv", "library", "lib"),
    ],
)
def test_a_missing_column_is_named(folder: Path, file: str, column: str, wrong: str) -> None:
    edit(folder / file, lambda text: text.replace(column, wrong, 1))
    message = fails(folder, request(tensor_parallel_size=2))
    assert f"{file}:1:1: the column {column} is missing" in message


def test_a_table_without_its_spread_columns_is_refused(folder: Path) -> None:
    edit(folder / "gemm_vllm_us.csv", lambda text: text.replace(",m", ",tokens", 74))
    assert "no column m with a count" in fails(folder, request())


def test_a_cell_that_is_no_number_is_named(folder: Path) -> None:
    edit(
        folder / "gemm_vllm_us.csv",
        lambda text: text.replace("bfloat16,4096,4096,12.56", "bfloat16,4096,4096,fast"),
    )
    assert "'fast' is no such number" in fails(folder, request())


def test_a_git_lfs_pointer_is_refused(folder: Path) -> None:
    (folder / "gemm_vllm_us.csv").write_text(
        "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"
    )
    assert "Git LFS pointer" in fails(folder, request())


def test_a_missing_neighbour_is_refused_and_not_invented(folder: Path) -> None:
    edit(folder / "gemm_vllm_us.csv", lambda text: text.replace("bfloat16,16384,4096,", "fp8,16384,4096,"))
    assert "its neighbour" in fails(folder, request())


def test_a_hole_in_a_row_is_filled_and_counted(folder: Path, draft: Draft) -> None:
    path = folder / "generation_attention_vllm_us.csv"
    lines = path.read_text().splitlines()
    row = next(index for index, line in enumerate(lines) if line.startswith("bfloat16,bfloat16,128,32,8,16,"))
    cells = lines[row].split(",")
    cells[6 + 8] = ""  # context 512 of 16 decodes
    lines[row] = ",".join(cells)
    path.write_text("\n".join(lines) + "\n")
    holed = read(folder, request())
    assert any("41 of 192 cells" in note for note in holed.provenance.notes)
    place = (
        draft.attention.decode.axes["decodes"].index(16),
        draft.attention.decode.axes["context"].index(512),
    )
    # Between 14.58 us at 256 and 31.39 us at 1,024 the line passes 20.2 us; the cell had 16.77 us.
    assert holed.attention.decode.values[place] == pytest.approx(20.18e-6, rel=0.01)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"dtype": "int4"}, "weight dtype 'int4'"),
        ({"dtype": "float16"}, "no row of dtype 'float16'"),
        ({"kv_dtype": "float16"}, "no rows for 32 query and 8 KV heads of 128 with float16 KV"),
        ({"engine": "sglang"}, "gemm_sglang_us.csv"),
        ({"engine_version": "0.9.0"}, "'0.24.0'"),
        ({"tensor_parallel_size": 3}, "tensor_parallel_size 3"),
        ({"tensor_parallel_size": 4}, "no all-reduce over 4 GPUs"),
        ({"gpu": None}, "do not name their GPU"),
    ],
)
def test_what_the_tables_do_not_hold_is_refused(asked: dict[str, object], words: str) -> None:
    assert words in fails(SAMPLE, request(**asked))  # type: ignore[arg-type]


def test_a_folder_without_tables_is_refused(tmp_path: Path) -> None:
    assert "holds no kernel tables" in fails(tmp_path, request())
