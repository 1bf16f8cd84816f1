"""From the GiB that an engine printed for its KV cache to the blocks, tokens and concurrency that it printed."""

from dataclasses import replace

import pytest

from capsim.catalog import load_model
from capsim.memory.kv import KvLayout
from capsim.memory.partition import KvPartition
from tests.cost.hardware import GIB
from tests.memory.printed import (
    DEEPSEEK_V32,
    GPT_OSS_120B,
    LATENT,
    LLAMA_8B,
    PIPELINES,
    PLAIN,
    QWEN36_35B,
    WINDOWED,
    Printed,
)

BATCHED = 8192


def errors(row: Printed) -> dict[str, float]:
    """Signed relative errors of what the row prints, and the row in print."""
    partition = KvPartition.of(
        row.model, row.kv_dtype, 16, tensor_parallel_size=row.ranks, pipeline_parallel_size=row.stages
    )
    layout = partition.largest
    blocks = partition.blocks(round(row.gib * GIB))
    tokens = layout.printed_tokens(blocks, row.max_model_len, BATCHED, by_concurrency=False)
    found = {
        "blocks": blocks / row.blocks - 1 if row.blocks else None,
        "tokens": tokens / row.tokens - 1 if row.tokens else None,
        "concurrency": layout.concurrency(blocks, row.max_model_len, BATCHED) / row.concurrency - 1,
    }
    signed = {name: error for name, error in found.items() if error is not None}
    print(f"{row.source:12}{row.model.name:34}", *(f"{name} {error:+.3%}" for name, error in signed.items()))
    return signed


def by_source(row: Printed) -> str:
    return row.source


@pytest.mark.parametrize("row", PLAIN, ids=by_source)
def test_plain_attention(row: Printed) -> None:
    found = errors(row)
    assert max(abs(found[name]) for name in found if name != "concurrency") <= 0.001
    # Printed with two digits.
    assert abs(found["concurrency"]) <= 0.001 + 0.005 / row.concurrency


@pytest.mark.parametrize("row", PIPELINES, ids=by_source)
def test_a_pipelines_blocks_are_those_of_another_stage_than_the_printed_gib(row: Printed) -> None:
    found = errors(row)
    # The last stage has 0.9 GiB less room than the one whose GiB are printed, of 66 and 70.
    assert all(0.01 < error < 0.015 for error in found.values())


@pytest.mark.parametrize("row", LATENT + WINDOWED, ids=by_source)
def test_latents_and_windows(row: Printed) -> None:
    assert max(map(abs, errors(row).values())) <= 0.001 + 0.005 / row.concurrency


def test_tokens_printed_of_a_hybrid_are_its_blocks_shared_by_the_groups() -> None:
    # Gemma-3-12B: 8 full and 40 windowed layers make six groups of 8. The printed tokens are a sixth of the pool's,
    # as if the windows grew without end; of sequences of 131,072 tokens it holds four times as many.
    row = next(row for row in WINDOWED if row.model.name == "gemma-3-12b")
    layout = KvLayout.of(row.model, 1, "bfloat16", 16)
    assert [(group.kind, group.layers) for group in layout.groups] == [("full", 8)] + 5 * [("window", 8)]
    assert layout.printed_tokens(row.blocks, 8192, BATCHED, by_concurrency=False) == row.tokens
    longest = 131072
    held = row.blocks // layout.blocks(longest) * longest
    assert 4 < held / row.tokens < 6


def test_later_versions_print_concurrency_times_the_longest_sequence() -> None:
    # club-3090-652: vLLM 0.24.0, fp8 KV, 6.01 GiB: 569,878 tokens at max_model_len 131072, concurrency 4.35.
    layout = KvLayout.of(QWEN36_35B, 1, "fp8", 16, state_blocks=2)
    blocks = int(6.01 * GIB) // layout.bytes_per_block
    assert layout.printed_tokens(blocks, 131072, BATCHED, by_concurrency=True) == 569878
    assert round(layout.concurrency(blocks, 131072, BATCHED), 2) == 4.35
    # hybrid: vLLM 0.17.0 printed 159,296 tokens for a hybrid of 40 layers, 10 of them full, and a concurrency of 8.00
    # at 65,536, which is not their ratio (2.43): blocks shared by four groups, times a block of 2,096 tokens.
    assert (len(layout.groups), layout.block_size) == (4, 2096)
    blocks = 159296 // 2096 * 4
    assert layout.printed_tokens(blocks, 65536, BATCHED, by_concurrency=False) == 159296
    assert layout.concurrency(blocks, 65536, BATCHED) == 8


def test_a_state_raises_the_block_size_as_the_engine_says() -> None:
    # qwen3-next: vLLM 0.10.2 on two H200: "Setting attention block size to 544 tokens", "Padding mamba page size by
    # 1.49%", 44.59 GiB, 973,760 tokens, concurrency 14.77 at 262,144. Without prefix caching.
    layout = KvLayout.of(load_model("qwen3-next-80b-a3b"), 2, "bfloat16", 16)
    assert [(group.kind, group.layers) for group in layout.groups] == [("full", 12)] + 3 * [("state", 12)]
    assert layout.block_size == 544
    assert round(100 * (layout.page_bytes / layout.groups[1].state_bytes - 1), 2) == 1.49
    blocks = int(44.59 * GIB) // layout.bytes_per_block
    assert layout.printed_tokens(blocks, 262144, BATCHED, by_concurrency=False) == 973760
    assert round(layout.concurrency(blocks, 262144, BATCHED), 2) == 14.77


def test_a_latents_block_size_is_a_multiple_of_64() -> None:
    # vLLM-28228: Kimi-Linear-48B-A3B on two GPUs, vLLM of November 2025: "Setting attention block size to 960 tokens",
    # "Padding mamba page size by 1.89%".
    layout = KvLayout.of(load_model("kimi-linear-48b-a3b"), 2, "bfloat16", 16)
    assert layout.block_size == 960
    assert round(100 * (layout.page_bytes / layout.groups[1].state_bytes - 1), 2) == 1.89


def test_a_mamba_state_raises_the_block_size_as_the_engine_says() -> None:
    # vLLM-24280: Nemotron-Nano-9B-v2 under vLLM of September 2025, which kept its states at 16 bits: 672 tokens. It has
    # heads of 80 elements and a longer pattern, else Nemotron-H-8B's attention and states.
    known = load_model("nemotron-h-8b")
    assert known.linear is not None
    nano = replace(known, linear=replace(known.linear, value_head_dim=80, state_bytes=2))
    assert KvLayout.of(nano, 1, "bfloat16", 16).block_size == 672


def test_windows_that_are_not_freed_count_as_full() -> None:
    # hf-mem-60: gpt-oss-120b, 5.38 GiB and 78,384 tokens: all 36 layers keep every token.
    layout = KvLayout.of(GPT_OSS_120B, 1, "bfloat16", 16, frees_windows=False)
    assert layout.bytes_per_token == 73728
    assert layout.bytes_per_token * 78384 / GIB == pytest.approx(5.38, abs=0.005)


def test_other_engines_count_the_same_bytes() -> None:
    # TRT-LLM-6294: Llama-3.1-8B with an fp8 cache in blocks of 32: 52.51 GiB and 860,320 tokens.
    assert KvLayout.of(LLAMA_8B, 1, "fp8", 32).bytes_per_token * 860320 / GIB == pytest.approx(
        52.51, abs=0.005
    )
    # SGLang-11309: DeepSeek-V3.2 with data-parallel attention, so each rank keeps whole sequences: 975,424 tokens in
    # 43.67 GB, which are GiB, the indexer's keys included; 1,462,784 took 65.49.
    size = KvLayout.of(DEEPSEEK_V32, 1, "fp8_ds_mla", 64).bytes_per_token
    assert size == 61 * (512 + 16 + 128 + 128 + 4)
    assert size * 975424 / GIB == pytest.approx(43.67, abs=0.01)
    assert size * 1462784 / GIB == pytest.approx(65.49, abs=0.01)
