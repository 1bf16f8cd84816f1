"""Windows, states, latents and shared layers: what a sequence holds, by hand."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capsim.catalog import load_model
from capsim.catalog.stage import pipeline_stages
from capsim.errors import BadInput
from capsim.memory.kv import KvLayout
from tests.memory.printed import GEMMA_3_12B, windowed

DEEPSEEK, GEMMA, NEXT = (load_model(name) for name in ("deepseek-v3", "gemma-3-27b", "qwen3-next-80b-a3b"))
KIMI_LINEAR, NEMOTRON_H = load_model("kimi-linear-48b-a3b"), load_model("nemotron-h-8b")


@pytest.mark.parametrize("ranks", [1, 2, 8])
def test_a_latent_is_held_in_full_by_every_rank(ranks: int) -> None:
    layout = KvLayout.of(DEEPSEEK, ranks, "bfloat16", 16)
    assert layout.bytes_per_token == 61 * (512 + 64) * 2 == 70272
    assert KvLayout.of(DEEPSEEK, ranks, "fp8", 16).bytes_per_token == 61 * 576
    assert KvLayout.of(DEEPSEEK, ranks, "fp8_ds_mla", 16).bytes_per_token == 61 * 656


def test_beyond_the_window_only_full_layers_grow() -> None:
    layout = KvLayout.of(GEMMA, 1, "bfloat16", 16)
    per_layer = 2 * 16 * 128 * 2
    assert layout.marginal_bytes(100_000) == 10 * per_layer
    # Within the window all 62 layers grow, and the 8 that pad the last group.
    assert layout.marginal_bytes(500) == 70 * per_layer
    # A whole number of blocks further on, windows hold as many blocks as before.
    step = 1600
    grown = layout.sequence_bytes(100_000 + step, 1) - layout.sequence_bytes(100_000, 1)
    assert grown == step * 10 * per_layer
    needed = layout.used_bytes(100_000)
    assert needed == per_layer * (10 * 100_000 + 52 * 1024)
    # Padding of the last group, and a block that is only partly in the window, in each of six groups.
    assert layout.sequence_bytes(100_000, 1) - needed <= 10 * 16 * per_layer * 7 + 8 * 1024 * per_layer


def test_a_state_is_constant_and_takes_a_block() -> None:
    layout = KvLayout.of(NEXT, 1, "bfloat16", 16)
    state = (3 * 8192 + 32 * 128 * 128) * 2
    assert layout.used_bytes(1) == 36 * state + 12 * 2048
    assert layout.used_bytes(10_001) - layout.used_bytes(1) == 12 * 2048 * 10_000
    assert [layout.blocks(tokens) for tokens in (1, 544, 545)] == [4, 4, 5]
    assert layout.marginal_bytes(10_000) == 12 * 2048
    assert KvLayout.of(NEXT, 1, "bfloat16", 16, state_blocks=2).blocks(544) == 7


def test_kimi_linear_by_hand() -> None:
    # 20 layers with states of 32 heads and 128 x 128 elements at 4 bytes, and 3 inputs of 3 x 32 x 128 channels at 2.
    layout = KvLayout.of(KIMI_LINEAR, 2, "bfloat16", 16)
    kinds = [(group.kind, group.layers) for group in layout.groups]
    assert kinds == [("latent", 7), ("state", 7), ("state", 7), ("state", 6)]
    state = (3 * 3 * 32 * 128 * 2 + 32 * 128 * 128 * 4) // 2
    assert layout.groups[1].state_bytes == state == 1_085_440
    # Every rank holds the whole latent, 7 x 576 elements at 2 bytes, and half of the states.
    assert layout.used_bytes(10_000) == 20 * state + 7 * 1152 * 10_000
    # A block of the latent is raised until a state fits: 943 tokens of 1,152 bytes, up to a multiple of 64.
    assert layout.block_size == 960
    assert [layout.blocks(tokens) for tokens in (1, 960, 961)] == [4, 4, 5]
    assert layout.bytes_per_block == 7 * 960 * 1152


def test_nemotron_h_by_hand() -> None:
    # 24 Mamba-2 layers with 128 heads of 64 x 128 elements at 4 bytes; layers with an MLP alone hold nothing.
    layout = KvLayout.of(NEMOTRON_H, 1, "bfloat16", 16)
    kinds = [(group.kind, group.layers) for group in layout.groups]
    assert kinds == [("full", 4)] + 6 * [("state", 4)]
    state = 3 * (128 * 64 + 2 * 8 * 128) * 2 + 128 * 64 * 128 * 4
    assert layout.groups[1].state_bytes == state == 4_255_744
    token = 2 * 8 * 128 * 2
    assert layout.used_bytes(10_000) == 24 * state + 4 * token * 10_000
    # 1,039 tokens of 4,096 bytes, up to a multiple of 16.
    assert layout.block_size == 1040
    assert [layout.blocks(tokens) for tokens in (1, 1040, 1041)] == [7, 7, 8]
    stages = [
        KvLayout.of(NEMOTRON_H, 1, "bfloat16", 16, stage=stage) for stage in pipeline_stages(NEMOTRON_H, 2)
    ]
    assert sum(stage.used_bytes(5000) for stage in stages) == layout.used_bytes(5000)


def test_layers_that_read_anothers_cache_hold_none() -> None:
    sharing = replace(load_model("llama-3.1-8b"), kv_shared_layers=12)
    assert KvLayout.of(sharing, 1, "bfloat16", 16).bytes_per_token == 20 * 4096


def test_kinds_of_nearly_as_many_layers_are_padded_to_the_most() -> None:
    # vLLM's own example: gpt-oss-20b with a draft layer, 12 windowed and 13 full: two groups of 13, not three of 12.
    drafted = replace(windowed("drafted", 25, 8, 8, 64, 128, 2), full_layers=(*range(1, 25, 2), 24))
    layout = KvLayout.of(drafted, 1, "bfloat16", 16)
    assert ([group.layers for group in layout.groups], layout.layers) == ([13, 12], 13)


def test_there_is_no_one_figure_a_token_of_a_hybrid() -> None:
    with pytest.raises(BadInput, match="no one figure of KV bytes a token with full and window layers"):
        _ = KvLayout.of(GEMMA, 1, "bfloat16", 16).bytes_per_token
    assert KvLayout.of(GEMMA, 1, "bfloat16", 16, frees_windows=False).bytes_per_token == 62 * 8192


@given(tokens=st.integers(1, 20_000), block_size=st.sampled_from([16, 32, 128]))
def test_a_window_holds_what_the_next_query_sees(tokens: int, block_size: int) -> None:
    layout = KvLayout.of(GEMMA_3_12B, 1, "bfloat16", block_size)
    full, window = layout.groups[0], layout.groups[1]
    seen = min(tokens, 1024 - 1)
    assert window.blocks(tokens) * block_size >= seen
    assert window.blocks(tokens) <= min(full.blocks(tokens), -(-seen // block_size) + 1)
    assert layout.blocks(tokens) == full.blocks(tokens) + 5 * window.blocks(tokens)
    assert window.blocks(tokens) <= window.peak_blocks(tokens, 8192)


@given(
    tokens=st.integers(1, 20_000), name=st.sampled_from(["gemma-3-27b", "gpt-oss-20b", "qwen3-next-80b-a3b"])
)
def test_blocks_hold_at_least_what_the_next_query_needs(tokens: int, name: str) -> None:
    model = load_model(name)
    layout = KvLayout.of(model, 1, "bfloat16", 16)
    # A window's oldest token is freed as soon as the next query does not see it.
    oldest = 0 if model.window is None else layout.groups[1].token_bytes * model.layers
    assert layout.blocks(tokens) * layout.bytes_per_block >= layout.used_bytes(tokens) - oldest


def test_stages_hold_their_own_layers() -> None:
    whole = KvLayout.of(GEMMA_3_12B, 1, "bfloat16", 16)
    stages = [
        KvLayout.of(GEMMA_3_12B, 1, "bfloat16", 16, stage=stage) for stage in pipeline_stages(GEMMA_3_12B, 2)
    ]
    assert [stage.layers for stage in stages] == [4, 4]
    assert sum(stage.used_bytes(5000) for stage in stages) == whole.used_bytes(5000)
    with pytest.raises(BadInput, match="24 layers of gemma-3-12b, whose layers differ"):
        KvLayout.of(GEMMA_3_12B, 1, "bfloat16", 16, layers=24)


def test_layers_that_cannot_share_blocks_are_refused() -> None:
    odd = replace(KIMI_LINEAR, linear=None, window=128, attention="sliding-window", head_dim=80)
    with pytest.raises(BadInput, match="do not share blocks"):
        KvLayout.of(odd, 1, "bfloat16", 16)


def test_the_scaled_layout_is_of_latents_only() -> None:
    with pytest.raises(BadInput, match="'fp8_ds_mla' is of latent attention"):
        KvLayout.of(GEMMA, 1, "fp8_ds_mla", 16)
