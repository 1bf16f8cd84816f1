import pytest
from hypothesis import given
from hypothesis import strategies as st

from capsim.errors import BadInput
from capsim.memory import KvLayout
from tests.cost.hardware import GIB, LLAMA_8B, LLAMA_70B, QWEN25_7B


def test_a_token_of_llama_8b_takes_128_kib_and_8192_of_them_one_gib() -> None:
    layout = KvLayout.of(LLAMA_8B, 1, "bfloat16", 16)
    assert layout.bytes_per_token == 32 * 8 * 128 * 2 * 2 == 128 << 10
    assert layout.sequence_bytes(prompt=8000, output=193) == GIB
    assert layout.bytes_per_block == 2 << 20


def test_fp8_halves_the_cache() -> None:
    assert 2 * KvLayout.of(LLAMA_8B, 1, "fp8", 16).bytes_per_token == 128 << 10


def test_kv_heads_are_split_over_the_ranks_and_then_replicated() -> None:
    sizes = [KvLayout.of(LLAMA_70B, ranks, "bfloat16", 16).bytes_per_token for ranks in (1, 2, 4, 8, 16, 32)]
    assert sizes == [327680, 163840, 81920, 40960, 40960, 40960]


@given(tokens=st.integers(1, 100_000), block_size=st.sampled_from([1, 8, 16, 32, 128]))
def test_blocks_are_the_fewest_that_hold_the_tokens(tokens: int, block_size: int) -> None:
    blocks = KvLayout.of(LLAMA_8B, 1, "bfloat16", block_size).blocks(tokens)
    assert (blocks - 1) * block_size < tokens <= blocks * block_size


@pytest.mark.parametrize("ranks", [0, 3, 64])
def test_ranks_that_do_not_divide_the_heads_are_refused(ranks: int) -> None:
    with pytest.raises(
        BadInput, match=f"tensor_parallel_size {ranks} does not divide llama-3.1-8b's 32 attention"
    ):
        KvLayout.of(LLAMA_8B, ranks, "bfloat16", 16)


def test_ranks_that_would_share_a_kv_head_unequally_are_refused() -> None:
    with pytest.raises(BadInput, match="4 key-value heads"):
        KvLayout.of(QWEN25_7B, 7, "bfloat16", 16)


def test_an_unknown_dtype_and_an_empty_block_are_refused() -> None:
    with pytest.raises(BadInput, match="'int3' is not known"):
        KvLayout.of(LLAMA_8B, 1, "int3", 16)
    with pytest.raises(BadInput, match="block_size 0"):
        KvLayout.of(LLAMA_8B, 1, "bfloat16", 0)
