from dataclasses import replace

import pytest

from capsim.errors import BadInput
from capsim.memory import Additions, Draft, LoraSlots, MemoryFit
from capsim.memory.budget import fit_memory
from capsim.memory.question import MemoryQuestion
from tests.cost.hardware import GIB, H100, LLAMA_8B, LLAMA_70B, QWEN3_30B_A3B

QUESTION = MemoryQuestion(LLAMA_8B, H100, 1, "bfloat16", "bfloat16", 16, 0.9, 8192, 256, 2048, "0.19.0")
LAYER = replace(LLAMA_8B, name="eagle-llama-3.1-8b", layers=1)


def fit(**additions: object) -> MemoryFit:
    return fit_memory(replace(QUESTION, additions=Additions(**additions)))  # type: ignore[arg-type]


def test_a_draft_takes_weights_and_a_layer_in_every_block() -> None:
    alone, drafted = fit_memory(QUESTION), fit(draft=Draft(LAYER))
    weights = 2 * (
        LAYER.attention_parameters + LAYER.mlp_parameters + LAYER.norm_parameters + LAYER.hidden_size
    )
    assert drafted.kv_bytes == alone.kv_bytes - weights
    assert drafted.bytes_per_token == 33 * 4096
    # An engine with an EAGLE draft prints 51.63 GiB and 410,128 tokens (github.com/vllm-project/vllm/issues/19996).
    assert 51.63 * GIB / drafted.bytes_per_token == pytest.approx(410128, rel=0.0001)  # two digits of GiB


def test_a_draft_may_bring_its_own_embeddings() -> None:
    shared, own = Draft(LAYER), Draft(LAYER, shares_embeddings=False)
    assert own.weight_bytes(2) - shared.weight_bytes(2) == 2 * LAYER.embedding_parameters


def test_a_draft_is_held_by_the_last_stage() -> None:
    staged = replace(QUESTION, pipeline_parallel_size=2, additions=Additions(draft=Draft(LAYER)))
    assert "draft model" in [line.name for line in fit_memory(staged).lines]
    assert fit_memory(staged).layout.layers == 17


def test_a_draft_of_other_layers_is_refused() -> None:
    with pytest.raises(BadInput, match="draft qwen3-30b-a3b: its layers' KV cache differs"):
        fit(draft=Draft(QWEN3_30B_A3B))


def test_lora_slots_by_hand() -> None:
    # q and o 4,096 + 4,096 each, k and v 4,096 + 1,024 each, gate, up and down 4,096 + 14,336 each.
    widths = 2 * 8192 + 2 * 5120 + 3 * 18432
    slots = LoraSlots(4, 16)
    assert slots.bytes(LLAMA_8B, 1, 32) == 2 * 4 * 16 * widths * 32
    assert fit(lora=slots).kv_bytes == fit_memory(QUESTION).kv_bytes - slots.bytes(LLAMA_8B, 1, 32)
    # Two ranks split one side of each.
    assert slots.bytes(LLAMA_70B, 2, 1) == 2 * 4 * 16 * (
        2 * (8192 + 4096) + 2 * (8192 + 512) + 3 * (8192 + 14336)
    )


def test_adapters_of_experts_are_refused() -> None:
    with pytest.raises(BadInput, match="LoRA slots of qwen3-30b-a3b"):
        LoraSlots(1, 16).bytes(QWEN3_30B_A3B, 1, 1)


def test_a_reserve_is_left_free() -> None:
    kept = fit(reserve=2 * GIB)
    assert kept.kv_bytes == fit_memory(QUESTION).kv_bytes - 2 * GIB
    assert [(line.name, line.tag) for line in kept.lines][-2:] == [
        ("reserve", "stated"),
        ("KV cache", "derived"),
    ]
