"""What was measured of a rank's memory beside what capsim counts, line by line."""

from __future__ import annotations

from dataclasses import dataclass

from capsim.memory import KvLayout
from capsim.memory.measured import compared, measured_lines
from capsim.memory.question import MemoryQuestion
from capsim.memory.startup_log import StartupLog
from capsim.memory.workspace import Workspace

BYTES, COUNT = "bytes", "count"


@dataclass(frozen=True)
class Row:
    """One line.

    Attributes:
        name: what it is.
        measured: what the engine says; None where it does not say.
        counted: what capsim counts by its rules; None where it has no rule.
        unit: `BYTES` of a rank, or `COUNT`.
        note: a remark, or nothing.
    """

    name: str
    measured: int | None
    counted: int | None
    unit: str = BYTES
    note: str = ""

    @property
    def difference(self) -> int | None:
        """Counted less measured."""
        return None if self.measured is None or self.counted is None else self.counted - self.measured


def account(question: MemoryQuestion, log: StartupLog) -> tuple[Row, ...]:
    """The lines of a start, from the GPU's memory down to the blocks of the KV cache."""
    rows = {row.name: Row(row.name, row.measured, row.counted) for row in compared(question, log)}
    cache, graphs = rows.pop("KV cache", None), rows.pop("CUDA graphs", None)
    total = question.gpu.memory if log.total is None else log.total
    share = question.gpu_memory_utilization
    found = [
        rows.pop("GPU memory", Row("GPU memory", None, question.gpu.memory)),
        Row(
            "budget",
            None if log.total is None else int(total * share),
            int(question.gpu.memory * share),
            note=f"gpu_memory_utilization {share:g}",
        ),
        *rows.values(),
        *_graphs(question, log, graphs),
        Row("not accounted for", _rest(question, log), None, note="of the budget, by the engine's own lines"),
    ]
    return (*(row for row in found if row.measured is not None), *_cache(question, log, cache))


def _graphs(question: MemoryQuestion, log: StartupLog, deducted: Row | None) -> list[Row]:
    """As captured, and what the budget loses where a version takes them from it."""
    if question.enforce_eager or (log.graphs is None and log.estimated_graphs is None):
        return []
    rule, inside = (
        Workspace.of(question.engine_version).graph_bytes(question.stage.layers),
        Workspace.of(question.engine_version).graphs_inside,
    )
    where = "outside the budget" if not inside else ""
    rows = [Row("CUDA graphs, captured", log.graphs, rule, note=where)]
    if deducted is not None and inside:
        rows.insert(0, Row("CUDA graphs, estimated", deducted.measured, deducted.counted))
    return rows


def _rest(question: MemoryQuestion, log: StartupLog) -> int | None:
    """What the engine's lines leave unexplained; None where it does not print them all."""
    if None in (log.total, log.weights, log.activations, log.non_torch, log.kv):
        return None
    return sum(line.bytes for line in measured_lines(question, log)) - (log.kv or 0)


def _cache(question: MemoryQuestion, log: StartupLog, cache: Row | None) -> list[Row]:
    """The KV cache, its blocks and its tokens, as far as they are told."""
    blocks = max(0, question.kv_bytes // question.layout.bytes_per_block)
    tokens = question.layout.printed_tokens(
        blocks,
        question.max_model_len,
        question.max_num_batched_tokens,
        by_concurrency=Workspace.of(question.engine_version).tokens_by_concurrency,
    )
    found = [
        *([cache] if cache is not None else []),
        Row("KV blocks", log.num_gpu_blocks, blocks, COUNT),
        Row("KV tokens", log.kv_tokens, tokens, COUNT),
    ]
    return [row for row in found if row.measured is not None]


def cache_account(layout: KvLayout, log: StartupLog) -> tuple[Row, ...]:
    """Of a KV cache whose size was asked for: how many blocks it makes."""
    if log.kv is None:
        return ()
    counted = log.kv // layout.bytes_per_block
    return (
        Row("KV cache", log.kv, log.kv, note="as it was asked for"),
        Row("KV blocks", log.num_gpu_blocks, counted, COUNT, f"of {layout.block_size} tokens"),
    )
