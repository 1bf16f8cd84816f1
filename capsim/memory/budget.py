"""Does it fit, and how many KV blocks remain?"""

from __future__ import annotations

from dataclasses import dataclass, replace

from capsim.errors import BadInput, Infeasible
from capsim.memory.kv import KvLayout
from capsim.memory.question import MemoryLine, MemoryQuestion, gib
from capsim.memory.readings import NO_READINGS, Readings
from capsim.memory.readings_lines import readings_lines
from capsim.memory.remedies import remedies


@dataclass(frozen=True)
class MemoryFit:
    """What a rank's memory is used for, and the KV pool that remains.

    Of several pools (data-parallel attention) everything but `replica_tokens` is of one.

    Attributes:
        lines: the memory table; its last line is the KV cache.
        kv_bytes: bytes for KV blocks on one rank; less than a block of it stays unused.
        num_gpu_blocks: KV blocks, as the engine prints them.
        layout: bytes and tokens of a block.
        max_model_len: longest sequence, tokens.
        data_parallel_size: pools of the replica.
    """

    lines: tuple[MemoryLine, ...]
    kv_bytes: int
    num_gpu_blocks: int
    layout: KvLayout
    max_model_len: int
    data_parallel_size: int = 1

    @property
    def bytes_per_token(self) -> int:
        """Bytes of KV for one token on one rank.

        Raises:
            BadInput: they depend on the length (windows, states).
        """
        return self.layout.bytes_per_token

    @property
    def usable_blocks(self) -> int:
        """Blocks that sequences can hold: the pool less its null block."""
        return self.num_gpu_blocks - 1

    @property
    def kv_tokens(self) -> int:
        """Tokens that the usable blocks hold: see `pool_tokens`."""
        return pool_tokens(self.layout, self.usable_blocks, self.max_model_len)

    @property
    def replica_tokens(self) -> int:
        """Tokens that all pools of the replica hold."""
        return self.data_parallel_size * self.kv_tokens

    def concurrency(self, tokens_per_sequence: int) -> float:
        """Sequences of this many tokens whose blocks the pool holds at once; whole sequences are its floor."""
        return self.usable_blocks / self.layout.blocks(tokens_per_sequence)


def pool_tokens(layout: KvLayout, blocks: int, max_model_len: int) -> int:
    """Tokens that blocks hold; where they depend on the length, in sequences of `max_model_len`."""
    if layout.plain:
        return blocks * layout.block_size
    return blocks * max_model_len // layout.blocks(max_model_len)


def fit_memory(question: MemoryQuestion, readings: Readings = NO_READINGS) -> MemoryFit:
    """Account for one rank's memory as vLLM does when it starts, and count its KV blocks.

    ``floor(memory * gpu_memory_utilization) - weights - activation peak - memory outside PyTorch`` is cut into
    blocks; CUDA graphs are taken from it after 0.19. With a pipeline the table is that of the stage with room for the
    fewest blocks, which decides for all.

    Args:
        question: model, GPU and settings.
        readings: what was measured of this model on this GPU with these ranks and precisions, in place of the rules.

    Raises:
        BadInput: a setting that no engine would accept, or images for a model whose encoder is not known.
        Infeasible: the weights leave no room, or the blocks hold less than one sequence of `max_model_len` (vLLM
            refuses to start); with what would make it fit.
    """
    _refuse_impossible(question)
    layout, lines = question.layout, readings_lines(question, readings)
    kv_bytes = sum(line.bytes for line in lines)
    blocks = max(0, kv_bytes // layout.bytes_per_block)
    if question.num_gpu_blocks is not None:
        stated = question.num_gpu_blocks
        note = f"{stated} blocks stated; the lines above leave {gib(kv_bytes)}, {blocks} blocks"
        kv_bytes, blocks = stated * layout.bytes_per_block, stated
        tag = "stated"
    else:
        note = f"{blocks} blocks of {layout.block_size} tokens, {_size_of_token(layout)}"
        tag = "derived"
    if kv_bytes < question.needed_bytes:
        raise Infeasible(limit(question, kv_bytes), remedies(_corrected(question, lines)))
    line = MemoryLine("KV cache", kv_bytes, tag, note + pools_note(question, blocks))
    return MemoryFit(
        (*lines, line), kv_bytes, blocks, layout, question.max_model_len, question.data_parallel_size
    )


def _corrected(question: MemoryQuestion, lines: tuple[MemoryLine, ...]) -> MemoryQuestion:
    """The question with what was measured beyond the rules set aside, so that a remedy is one for the measured rank."""
    beyond = question.kv_bytes - sum(line.bytes for line in lines)
    additions = question.additions
    return replace(question, additions=replace(additions, reserve=additions.reserve + beyond))


def pools_note(question: MemoryQuestion, blocks: int) -> str:
    """What all pools of the replica hold, where there are several."""
    if question.data_parallel_size == 1:
        return ""
    tokens = pool_tokens(question.layout, blocks - 1, question.max_model_len)
    pools = question.data_parallel_size
    return f"; {tokens:,} tokens, and {pools * tokens:,} in the {pools} pools of the replica"


def _size_of_token(layout: KvLayout) -> str:
    if layout.plain:
        return f"{layout.bytes_per_token} bytes a token"
    return f"{layout.bytes_per_block} bytes a block"


def _refuse_impossible(question: MemoryQuestion) -> None:
    faults = [
        f"{name} {value}, expected at least 1"
        for name, value in (
            ("max_model_len", question.max_model_len),
            ("max_num_seqs", question.max_num_seqs),
            ("max_num_batched_tokens", question.max_num_batched_tokens),
            ("data_parallel_size", question.data_parallel_size),
            ("num_gpu_blocks", 1 if question.num_gpu_blocks is None else question.num_gpu_blocks),
        )
        if value < 1
    ]
    if question.images_per_prompt < 0:
        faults.append(f"images_per_prompt {question.images_per_prompt}, expected at least 0")
    if not 0 < question.gpu_memory_utilization <= 1:
        faults.append(f"gpu_memory_utilization {question.gpu_memory_utilization}, expected a share in (0, 1]")
    if faults:
        raise BadInput(*faults)


def limit(question: MemoryQuestion, kv_bytes: int) -> str:
    """Which limit is exceeded and by how much, where `kv_bytes` are left for the KV cache of a rank."""
    where = f"{question.model.name} on {question.ranks} x {question.gpu.name}"
    needed = question.needed_bytes
    one = f"one sequence of max_model_len {question.max_model_len} needs {gib(needed)} of KV cache"
    if kv_bytes <= 0:
        return (
            f"{where}: weights and workspace exceed the memory budget of a GPU by {gib(-kv_bytes)}, and {one} "
            f"({gib(needed - kv_bytes)} short in all)"
        )
    return f"{where}: {one}, {gib(kv_bytes)} are left ({gib(needed - kv_bytes)} short)"
