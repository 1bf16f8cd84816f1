"""Kernel times carried over from an H200 beside what was timed on an H100: the rule on shapes that it never saw."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from calibrate.importers.aiconfigurator.csv_source import CsvSource
from calibrate.importers.aiconfigurator.gemm import GemmTable
from calibrate.importers.aiconfigurator.source import Columns, Heads, Source
from calibrate.importers.aiconfigurator.transfer import Transfer, TransferredSource
from capsim.catalog import load_gpu

SAMPLES = Path(__file__).parent / "samples"
KERNELS = SAMPLES / "transfer" / "kernels.csv"
GEMM_BINS = ((1, 64), (65, 256), (257, 1024), (1025, 32768))
"""Tokens: the memory binds, then neither alone, then the arithmetic."""
KV_BINS = ((0, 50), (50, 200), (200, 1 << 20))
"""MB of KV that one layer reads: launches, which the other source counts too, weigh in the first."""


@dataclass(frozen=True)
class Bin:
    """Errors of one kind of kernel in one regime, relative to what was timed on the H100.

    Attributes:
        kernels, regime: which.
        unscaled: of the H200's own times.
        carried: of those that the rule makes of them.
    """

    kernels: str
    regime: str
    unscaled: tuple[float, ...]
    carried: tuple[float, ...]


def rule() -> Transfer:
    """From the H200 to the H100."""
    return Transfer.between(load_gpu("h200"), load_gpu("h100-sxm"))


@cache
def bins() -> tuple[Bin, ...]:
    """All comparisons, by kind and regime."""
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for kernels, regime, unscaled, carried in (*_same_kernels(), *_fp8(), *_attention()):
        found.setdefault((kernels, regime), []).append((unscaled, carried))
    return tuple(Bin(*key, *map(tuple, zip(*pairs, strict=True))) for key, pairs in found.items())


Error = tuple[str, str, float, float]


def _same_kernels() -> Iterator[Error]:
    """BF16 layers of Llama-3.1-8B, vLLM 0.24 on both GPUs."""
    here, there = (
        CsvSource(SAMPLES / "aiconfigurator", "vllm", None),
        CsvSource(SAMPLES / "transfer" / "h100", "vllm", None),
    )
    measured = there.gemm("bfloat16")
    for shape in dict.fromkeys(zip(measured["n"].tolist(), measured["k"].tolist(), strict=True)):
        if min(shape) >= 1024:
            real = dict(zip(*_line(measured, *shape), strict=True))
            yield from _gemm_errors("vLLM's BF16 layers", here, "bfloat16", *map(int, shape), real)


def _fp8() -> Iterator[Error]:
    """FP8 layers by another library's kernels."""
    source = CsvSource(SAMPLES / "transfer" / "h200", "vllm", None)
    real: dict[tuple[int, int], dict[int, float]] = {}
    for row in _rows("gemm"):
        real.setdefault((int(row["n"]), int(row["k"])), {})[int(row["m"])] = 1e-6 * float(row["latency_us"])
    for (n, k), seconds in real.items():
        yield from _gemm_errors("another library's FP8 layers", source, "fp8", n, k, seconds)


def _gemm_errors(
    kernels: str, source: Source, dtype: str, n: int, k: int, real: dict[int, float]
) -> Iterator[Error]:
    lines = [
        GemmTable(tables.gemm(dtype), dtype).line(n, k)
        for tables in (source, TransferredSource(source, rule()))
    ]
    (counts, unscaled, _), (_, carried, _) = lines
    for count, plain, moved in zip(counts.tolist(), unscaled.tolist(), carried.tolist(), strict=True):
        for low, high in GEMM_BINS:
            if count in real and low <= count <= high:
                yield kernels, f"{low:,} to {high:,} tokens", plain / real[count] - 1, moved / real[count] - 1


def _attention() -> Iterator[Error]:
    """Decode attention by another library's kernels."""
    source = CsvSource(SAMPLES / "aiconfigurator", "vllm", None)
    carried = TransferredSource(source, rule())
    for row in _rows("mha_decode"):
        ranks = int(row["tp"])
        heads = Heads(int(row["q_heads"]) // ranks, int(row["kv_heads"]) // ranks, 128, "bfloat16")
        decodes, context = int(row["batch"]), int(row["kv_or_seq_len"])
        unscaled, moved = (_at(tables.decode(heads), decodes, context) for tables in (source, carried))
        if unscaled is not None and moved is not None:
            size = decodes * context * 4 * heads.key_value * heads.size / 1e6
            low, high = next(each for each in KV_BINS if each[0] <= size < each[1])
            regime = f"{low} to {high} MB of KV" if high < KV_BINS[-1][1] else f"{low} MB of KV and more"
            real = 1e-6 * float(row["latency_us"])
            yield "another library's decode attention", regime, unscaled / real - 1, moved / real - 1


def _rows(kind: str) -> list[dict[str, str]]:
    with KERNELS.open() as file:
        return [row for row in csv.DictReader(file) if row["kind"] == kind]


def _line(columns: Columns, n: float, k: float) -> tuple[list[int], list[float]]:
    rows = (columns["n"] == n) & (columns["k"] == k)
    return columns["m"][rows].astype(int).tolist(), columns["seconds"][rows].tolist()


def _at(columns: Columns, decodes: int, context: int) -> float | None:
    rows = np.flatnonzero((columns["decodes"] == decodes) & (columns["context"] == context))
    return float(columns["seconds"][rows[0]]) if len(rows) else None
