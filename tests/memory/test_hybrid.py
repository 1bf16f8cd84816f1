"""Windows, states, latents and shared layers: what a sequence holds, by hand."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capsim.catalog import load_model
from capsim.catalog.attention import LatentAttention, LinearAttention
from capsim.catalog.stage import pipeline_stages
from capsim.errors import BadInput
from capsim.memory.kv import KvLayout
from tests.memory.printed import GEMMA_3_12B, windowed

DEEPSEEK, GEMMA, NEXT = (load_model(name) for name in ("deepseek-v3", "gemma-3-27b", "qwen3-next-80b-a3b"))
# Kimi-Linear-48B-A3B: 20 layers of Kimi Delta Attention and 7 with latents (its config.json).
KIMI_LINEAR = replace(
    NEXT,
    name="kimi-linear",
    layers=27,
    attention_heads=32,
    kv_heads=1,
    head_dim=128,
    latent=LatentAttention(512, 64, 128, 128),
    linear=LinearAttention(32, 32, 128, 128, 4, state_bytes=4),
    full_layers=(3, 7, 11, 15, 19, 23, 26),
)
# Nemotron-H-8B: 24 Mamba-2 and 4 attention layers; the layers with an MLP alone hold nothing (its config.json).
NEMOTRON_H = replace(
    NEXT,
    name="nemotron-h",
    layers=28,
    attention_heads=32,
    kv_heads=8,
    head_dim=128,
    linear=LinearAttention(8, 128, 128, 64, 4),
    full_layers=(6, 13, 20, 27),
)


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


def test_other_linear_layers_have_the_same_arithmetic() -> None:
    # Three groups of up to 7 layers with states of 32 heads and 128 x 128 elements at 4 bytes.
    kimi = KvLayout.of(KIMI_LINEAR, 2, "bfloat16", 16)
    assert [(group.kind, group.layers) for group in kimi.groups] == [
        ("latent", 7),
        ("state", 7),
        ("state", 7),
        ("state", 6),
    ]
    state = (3 * 3 * 32 * 128 * 2 + 32 * 128 * 128 * 4) // 2
    assert kimi.groups[1].state_bytes == state
    assert kimi.block_size == 16 * -(-state // (16 * 576 * 2))
    nemotron = KvLayout.of(NEMOTRON_H, 1, "bfloat16", 16)
    state = (3 * (2 * 8 * 128 + 128 * 64) + 128 * 64 * 128) * 2
    assert (nemotron.groups[1].state_bytes, len(nemotron.groups)) == (state, 7)


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
