"""Data-parallel attention: groups of ranks with sequences of their own that share the experts, by hand."""

from dataclasses import replace

import pytest

from capsim.catalog import load_model
from capsim.catalog.model import Model
from capsim.errors import BadInput, Infeasible
from capsim.memory import weight_bytes
from capsim.memory.budget import MemoryFit, fit_memory
from capsim.memory.changes import changes
from capsim.memory.kv import KvLayout
from capsim.memory.question import MemoryQuestion
from tests.cost.hardware import H100, H200, LLAMA_8B, LLAMA_70B

DEEPSEEK, QWEN_235B = load_model("deepseek-v3"), load_model("qwen3-235b-a22b")
EIGHT = MemoryQuestion(
    DEEPSEEK, H200, 8, "fp8", "bfloat16", 64, 0.9, 32768, 256, 4096, "0.19.0", expert_parallel=True
)
APART = replace(EIGHT, tensor_parallel_size=1, data_parallel_size=8)
"""The same eight GPUs, each with all of the attention."""


def size(fit: MemoryFit, name: str) -> int:
    return next(line.bytes for line in fit.lines if line.name == name)


def weights(model: Model, ranks: int, groups: int, *, whole: bool = True) -> int:
    return weight_bytes(model, ranks, "bfloat16", expert_parallel=whole, data_parallel_size=groups)


def test_a_latent_is_held_once_instead_of_by_every_rank() -> None:
    together, apart = fit_memory(EIGHT), fit_memory(APART)
    # 61 layers of 512 + 64 elements of 16 bits on a rank, either way.
    assert together.bytes_per_token == apart.bytes_per_token == 61 * 576 * 2
    # Of the whole replica: on eight ranks, or on the one whose sequence it is.
    assert EIGHT.ranks == APART.ranks == 8
    assert (together.replica_tokens, apart.replica_tokens) == (together.kv_tokens, 8 * apart.kv_tokens)
    bytes_per_token = [8 * fit.kv_bytes / fit.replica_tokens for fit in (together, apart)]
    # The null block and what is left of a block are 0.03 % of a pool at most.
    assert bytes_per_token[0] / bytes_per_token[1] == pytest.approx(8, rel=3e-4)
    assert apart.lines[-1].note.endswith(
        f"; {apart.kv_tokens:,} tokens, and {8 * apart.kv_tokens:,} in the 8 pools of the replica"
    )
    assert together.lines[-1].note.endswith(" blocks of 64 tokens, 70272 bytes a token")


def test_experts_are_shared_by_all_ranks_and_everything_else_within_a_group() -> None:
    hidden, expert = 7168, 3 * 7168 * 2048
    # Held by every rank: the ways down, their norms, a layer's norms, routers and the final norm.
    down = hidden * (512 + 64 + 1536) + 512 + 1536
    replicated = 61 * (down + 2 * hidden) + 58 * hidden * 256 + hidden
    heads = 128 * (1536 * 192 + 512 * 256 + 128 * hidden)
    split = 61 * heads + 3 * 3 * hidden * 18432 + 58 * expert + 2 * 129280 * hidden
    dealt = 58 * (256 // 8) * expert
    assert weights(DEEPSEEK, 8, 1) == 2 * (replicated + split // 8 + dealt)
    assert weights(DEEPSEEK, 1, 8) == 2 * (replicated + split + dealt)
    assert weights(DEEPSEEK, 2, 4) == 2 * (replicated + split // 2 + dealt)
    # Split instead of dealt out, over all ranks of all groups, they take the same bytes.
    assert weights(DEEPSEEK, 1, 8, whole=False) == weights(DEEPSEEK, 1, 8)
    # More ranks than one replica of tensor parallelism could have.
    assert weights(DEEPSEEK, 1, 256) == 2 * (replicated + split + 58 * expert)


def test_what_does_not_come_out_even() -> None:
    # 128 experts on 3 x 4 ranks: the fullest has 11.
    twelve = weights(QWEN_235B, 4, 3) - weights(QWEN_235B, 4, 32)
    assert twelve == 2 * 94 * (11 - 1) * QWEN_235B.expert_parameters
    # 1,536 columns.
    with pytest.raises(
        BadInput,
        match="data_parallel_size 5 and tensor_parallel_size 4: 20 ranks do not divide the 1536 columns of "
        "qwen3-235b-a22b's experts, expected enable_expert_parallel",
    ):
        weights(QWEN_235B, 4, 5, whole=False)
    with pytest.raises(BadInput, match="data_parallel_size 0, expected at least 1"):
        fit_memory(replace(APART, data_parallel_size=0))


def test_ranks_of_a_dense_model_are_replicas_that_hold_everything() -> None:
    alone = fit_memory(
        MemoryQuestion(LLAMA_8B, H100, 1, "bfloat16", "bfloat16", 16, 0.9, 8192, 256, 2048, "0.19.0")
    )
    two = fit_memory(
        MemoryQuestion(
            LLAMA_8B,
            H100,
            1,
            "bfloat16",
            "bfloat16",
            16,
            0.9,
            8192,
            256,
            2048,
            "0.19.0",
            data_parallel_size=2,
        )
    )
    assert [line.bytes for line in two.lines] == [line.bytes for line in alone.lines]
    assert (two.kv_tokens, two.replica_tokens) == (alone.kv_tokens, 2 * alone.kv_tokens)


def test_ranks_that_share_experts_speak_to_each_other() -> None:
    assert size(fit_memory(APART), "communication") == size(fit_memory(EIGHT), "communication") < 0
    note = next(line.note for line in fit_memory(APART).lines if line.name == "weights")
    assert note == "fp8, DP 8, TP 1 with whole experts"


def test_heads_that_can_be_shared_lose_nothing_by_it() -> None:
    # Eight KV heads on eight ranks: each rank has one head of every sequence, or all heads of an eighth of them.
    shared = KvLayout.of(LLAMA_70B, 8, "bfloat16", 16).bytes_per_token
    assert KvLayout.of(LLAMA_70B, 1, "bfloat16", 16).bytes_per_token == 8 * shared


def test_remedies_and_changes_keep_to_what_the_experts_allow() -> None:
    # 1,536 columns: on 3 x 4 ranks each has 128, on 3 x 5 they do not come out even.
    split = MemoryQuestion(
        QWEN_235B, H100, 1, "bfloat16", "bfloat16", 16, 0.9, 32768, 256, 2048, "0.19.0", data_parallel_size=3
    )
    with pytest.raises(Infeasible, match="qwen3-235b-a22b on 3 x h100") as refusal:
        fit_memory(split)
    assert any("tensor_parallel_size 4 " in remedy for remedy in refusal.value.remedies)
    wide = replace(split, tensor_parallel_size=4, data_parallel_size=128)
    assert "tensor_parallel_size 8" not in [change.name for change in changes(wide)]
    assert "tensor_parallel_size 8" in [
        change.name for change in changes(replace(wide, expert_parallel=True))
    ]
