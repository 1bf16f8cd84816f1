"""The memory table of an engine that has started: its own figures in place of the model's."""

from __future__ import annotations

from dataclasses import replace

from capsim.errors import Infeasible
from capsim.memory.budget import MemoryFit, limit, pools_note
from capsim.memory.question import MemoryLine, MemoryQuestion, gib
from capsim.memory.remedies import remedies
from capsim.memory.startup_log import StartupLog
from capsim.memory.workspace import Workspace

_TOLERANCE = 0.01
"""Sizes are printed to 0.01 GiB, which is below this of any pool of 1 GiB."""


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
    total = question.gpu.memory if log.total is None else log.total
    question = replace(question, gpu=replace(question.gpu, memory=total))
    deductions = question.deductions()
    # The engine prints the encoder's weights and the images of its profiling run as part of these two.
    images = {line.name: line.bytes for line in deductions}
    inside = {
        "weights": images.get("vision encoder", 0),
        "activations": sum(
            images.get(name, 0) for name in ("encoder cache", "pixels", "encoder activations")
        ),
    }
    measured = {
        "GPU memory": log.total,
        "weights": _taken(log.weights, inside["weights"]),
        "activations": _taken(log.activations, inside["activations"]),
    }
    if log.non_torch is not None:
        measured |= {"outside PyTorch": -log.non_torch, "communication": 0}
    graphs = _graphs(question, log)
    lines = []
    for line in deductions:
        size = measured.get(line.name)
        if line.name == "CUDA graphs" and graphs is not None:
            lines.append(graphs)
        elif size is not None:
            note = "in the line above" if line.name == "communication" else "printed by the engine"
            note += ", less what images take" if inside.get(line.name) else ""
            lines.append(MemoryLine(line.name, size, "measured", note))
        else:
            lines.append(line)
    return tuple(lines)


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


def _taken(size: int | None, inside: int) -> int | None:
    """What a printed size takes, without lines that are counted by themselves."""
    return None if size is None else -size - inside


def _graphs(question: MemoryQuestion, log: StartupLog) -> MemoryLine | None:
    """The estimate is what the budget loses; what was captured beside it is only said."""
    captured = "" if log.graphs is None else f"{gib(log.graphs)} captured"
    if Workspace.of(question.engine_version).graphs_inside and log.estimated_graphs is not None:
        note = f"estimated by the engine, {captured}".removesuffix(", ")
        return MemoryLine("CUDA graphs", -log.estimated_graphs, "measured", note)
    if captured and not Workspace.of(question.engine_version).graphs_inside:
        return MemoryLine("CUDA graphs", 0, "measured", f"{captured}, outside the budget")
    return None


def _blocks(question: MemoryQuestion, log: StartupLog) -> int:
    """Blocks as printed, or from the tokens, or from the bytes."""
    if log.num_gpu_blocks is not None:
        return log.num_gpu_blocks
    room = max(0, (log.kv or 0) // question.layout.bytes_per_block)
    if log.kv_tokens is None or not question.layout.plain:
        return room
    return log.kv_tokens // question.layout.block_size
