"""The memory table of an engine that has started: its own figures in place of the model's."""

from __future__ import annotations

from dataclasses import dataclass

from capsim.errors import Infeasible
from capsim.memory.budget import MemoryFit, limit, pools_note
from capsim.memory.question import MemoryLine, MemoryQuestion, gib
from capsim.memory.readings import LOG, Peak, Peaks, Reading, Readings
from capsim.memory.readings_lines import readings_lines
from capsim.memory.remedies import remedies
from capsim.memory.startup_log import StartupLog
from capsim.memory.workspace import Workspace

_TOLERANCE = 0.01
"""Sizes are printed to 0.01 GiB, which is below this of any pool of 1 GiB."""


@dataclass(frozen=True)
class Compared:
    """One line of a log beside the rules' own; bytes of a rank, `difference` signed."""

    name: str
    measured: int
    counted: int

    @property
    def difference(self) -> int:
        """Counted less measured."""
        return self.counted - self.measured


def measured_fit(question: MemoryQuestion, log: StartupLog) -> MemoryFit:
    """The memory table with the lines that a log prints, and the engine's own KV blocks.

    Lines that the log leaves out stay the model's; what the log's KV cache then differs from their sum is a line of
    its own, so that the table adds up.

    Args:
        question: the settings that the logged engine ran with.
        log: of its start.

    Raises:
        BadInput: see `fit_memory`.
        Infeasible: the log is of an engine that did not start for want of memory.
    """
    layout, lines = question.layout, measured_lines(question, log)
    blocks = _blocks(question, log)
    kv_bytes = log.kv if log.kv is not None else blocks * layout.bytes_per_block
    if kv_bytes < question.needed_bytes * (1 - _TOLERANCE):
        raise Infeasible(limit(question, kv_bytes) + f", as {log.source} says", remedies(question))
    # The size is rounded to 0.01 GiB, the blocks are not: they must fit.
    kv_bytes = max(kv_bytes, blocks * layout.bytes_per_block)
    unexplained = kv_bytes - sum(line.bytes for line in lines)
    note = f"{blocks} blocks of {layout.block_size} tokens{pools_note(question, blocks)}"
    return MemoryFit(
        (
            *lines,
            MemoryLine("not accounted for", unexplained, "derived", "so that the lines add up to the log's"),
            MemoryLine("KV cache", kv_bytes, "measured", note),
        ),
        kv_bytes,
        blocks,
        layout,
        question.max_model_len,
        question.data_parallel_size,
    )


def measured_lines(question: MemoryQuestion, log: StartupLog) -> tuple[MemoryLine, ...]:
    """The lines above the KV cache, measured where the log prints them."""
    return readings_lines(question, log_readings(question, log))


def log_readings(question: MemoryQuestion, log: StartupLog) -> Readings:
    """A log's figures, which hold for the settings of the question."""
    version = question.engine_version

    def reading(size: int | None) -> Reading | None:
        return None if size is None else Reading(size, "measured", LOG, version)

    peaks = None
    if log.activations is not None:
        peak = Peak(question.max_num_batched_tokens, question.max_num_seqs, log.activations)
        peaks = Peaks((peak,), "measured", LOG, version)
    return Readings(
        total=reading(log.total),
        weights=reading(log.weights),
        activations=peaks,
        non_torch=reading(log.non_torch),
        graphs=reading(log.graphs),
        estimated_graphs=reading(log.estimated_graphs),
    )


def compared(question: MemoryQuestion, log: StartupLog) -> tuple[Compared, ...]:
    """What a log prints beside what the rules say of the same settings, a line each; the KV cache is the last."""
    counted = {line.name: abs(line.bytes) for line in question.deductions()}
    printed = [line for line in measured_lines(question, log) if line.tag == "measured"]
    rows = [Compared(line.name, abs(line.bytes), counted[line.name]) for line in printed]
    if log.non_torch is not None and "communication" in counted:
        rows = [row for row in rows if row.name not in ("outside PyTorch", "communication")]
        together = counted["outside PyTorch"] + counted["communication"]
        rows.append(Compared("outside PyTorch and communication", log.non_torch, together))
    if log.kv is not None:
        rows.append(Compared("KV cache", log.kv, question.kv_bytes))
    return tuple(rows)


def disagreements(question: MemoryQuestion, log: StartupLog) -> tuple[str, ...]:
    """What the log's own figures say against the scenario's model, one sentence each."""
    if not log.kv or log.kv < 0 or not log.kv_tokens:
        return ()
    blocks = log.kv // question.layout.bytes_per_block
    held = question.layout.printed_tokens(
        blocks,
        question.max_model_len,
        question.max_num_batched_tokens,
        by_concurrency=Workspace.of(question.engine_version).tokens_by_concurrency,
    )
    if abs(log.kv_tokens / max(1, held) - 1) <= _TOLERANCE:
        return ()
    return (
        f"the log's engine holds {log.kv_tokens:,} tokens in {gib(log.kv)}, this model and KV dtype would hold "
        f"{held:,}: another model, a draft model beside it, or another KV dtype",
    )


def _blocks(question: MemoryQuestion, log: StartupLog) -> int:
    """Blocks as printed, or from the tokens, or from the bytes."""
    if log.num_gpu_blocks is not None:
        return log.num_gpu_blocks
    room = max(0, (log.kv or 0) // question.layout.bytes_per_block)
    if log.kv_tokens is None or not question.layout.plain:
        return room
    return log.kv_tokens // question.layout.block_size
