from dataclasses import replace

import pytest

from capsim.catalog import load_model
from capsim.errors import BadInput
from capsim.memory.kv import KvLayout
from capsim.memory.partition import KvPartition
from tests.cost.hardware import GIB, LLAMA_8B, LLAMA_70B

DEEPSEEK = load_model("deepseek-v3")


def test_32_sequences_of_8192_tokens_take_32_gib() -> None:
    partition = KvPartition.of(LLAMA_8B, "bfloat16", 16)
    assert partition.sequence_bytes(8192, 1) == GIB
    assert partition.blocks(32 * GIB) == 32 * 512
    assert partition.concurrency(32 * GIB, 8192, 2048) == 32


@pytest.mark.parametrize(("ranks", "copies"), [(1, 1), (8, 1), (16, 2), (64, 8)])
def test_replicated_heads_multiply_what_a_replica_holds(ranks: int, copies: int) -> None:
    partition = KvPartition.of(LLAMA_70B, "bfloat16", 16, tensor_parallel_size=ranks)
    assert partition.sequence_bytes(8192, 1) == copies * 8192 * 327680
    assert partition.ranks == ranks


def test_stages_hold_a_sequence_once_and_the_fullest_decides() -> None:
    partition = KvPartition.of(replace(LLAMA_8B, layers=33), "bfloat16", 16, pipeline_parallel_size=4)
    assert partition.sequence_bytes(8192, 1) == 33 * 4096 * 8192
    assert [layout.layers for layout in partition.stages] == [8, 8, 9, 8]
    assert partition.blocks(GIB) == GIB // (9 * 4096 * 16)


def test_attention_for_its_own_sequences_holds_a_latent_once() -> None:
    tensor = KvPartition.of(DEEPSEEK, "bfloat16", 16, tensor_parallel_size=8)
    data = KvPartition.of(DEEPSEEK, "bfloat16", 16, data_parallel_size=8)
    assert tensor.ranks == data.ranks == 8
    assert tensor.sequence_bytes(8192, 1) == 8 * data.sequence_bytes(8192, 1) == 8 * 8192 * 70272
    assert data.concurrency(10 * GIB, 8192, 8192) == 8 * tensor.concurrency(10 * GIB, 8192, 8192)


@pytest.mark.parametrize("shared", [2, 8])
def test_ranks_with_copies_can_share_a_sequences_tokens(shared: int) -> None:
    whole = KvPartition.of(DEEPSEEK, "bfloat16", 16, tensor_parallel_size=8)
    partition = KvPartition.of(
        DEEPSEEK, "bfloat16", 16, tensor_parallel_size=8, decode_context_parallel_size=shared
    )
    assert partition.largest.block_size == 16 * shared
    assert partition.largest.bytes_per_token == 70272 // shared
    assert partition.largest.used_bytes(1 + shared) == 2 * 70272
    assert partition.concurrency(10 * GIB, 65536, 8192) == shared * whole.concurrency(10 * GIB, 65536, 8192)


def test_tokens_are_shared_only_where_there_are_copies() -> None:
    # 16 ranks hold two copies of each of eight heads.
    assert KvLayout.of(LLAMA_70B, 16, "bfloat16", 16, decode_context_parallel_size=2).block_size == 32
    for ranks, shared, what in ((8, 2, "the 1 ranks"), (16, 4, "the 2 ranks"), (8, 0, "the 1 ranks")):
        with pytest.raises(BadInput, match=f"decode_context_parallel_size {shared} does not divide {what}"):
            KvLayout.of(LLAMA_70B, ranks, "bfloat16", 16, decode_context_parallel_size=shared)
    with pytest.raises(BadInput, match="gemma-3-27b has window layers"):
        KvLayout.of(load_model("gemma-3-27b"), 32, "bfloat16", 16, decode_context_parallel_size=2)


def test_no_pool_is_refused() -> None:
    with pytest.raises(BadInput, match="data_parallel_size 0"):
        KvPartition.of(LLAMA_8B, "bfloat16", 16, data_parallel_size=0)
