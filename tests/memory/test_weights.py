from dataclasses import replace
from typing import Any

import pytest

from capsim.catalog import load_model
from capsim.catalog.model import Experts, Model
from capsim.catalog.stage import pipeline_stages
from capsim.errors import BadInput, Infeasible
from capsim.memory import MemoryFit, fit_memory, weight_bytes
from capsim.memory.question import MemoryQuestion
from capsim.memory.workspace import Workspace
from tests.cost.hardware import H100, H200, LLAMA_8B, MIXTRAL_8X7B, QWEN3_30B_A3B

TINY = Model(
    "tiny",
    "gqa",
    2,
    8,
    16,
    4,
    2,
    4,
    32,
    False,
    128,
    "by hand",
    experts=Experts(5, 2, 4, shared=1, dense_layers=1),
)


@pytest.mark.parametrize(("dtype", "size"), [("int8", 1 + 2 / 128), ("int4", 0.5 + 2 / 128 + 0.5 / 128)])
def test_weight_only_keeps_embeddings_and_norms_at_two_bytes(dtype: str, size: float) -> None:
    linear = 32 * (LLAMA_8B.attention_parameters + LLAMA_8B.mlp_parameters)
    assert weight_bytes(LLAMA_8B, 1, dtype) == 2 * (LLAMA_8B.parameters - linear) + linear * size


@pytest.mark.parametrize("model", [MIXTRAL_8X7B, QWEN3_30B_A3B, TINY])
def test_one_rank_holds_every_weight(model: Model) -> None:
    assert weight_bytes(model, 1, "bfloat16") == 2 * model.parameters
    assert weight_bytes(model, 1, "bfloat16", expert_parallel=True) == 2 * model.parameters


def test_experts_are_split_or_dealt_out_by_hand() -> None:
    # Two ranks: half of qkv, output, dense MLP, shared expert and embeddings; routers and norms in full.
    attention = 2 * (8 * (16 + 8 + 8) + 16 * 8) // 2
    halves = attention + (3 * 8 * 16 + 3 * 8 * 4 + 2 * 32 * 8) // 2
    whole = 2 * 2 * 8 + 8 + 5 * 8
    expert = 3 * 8 * 4
    assert weight_bytes(TINY, 2, "bfloat16") == 2 * (halves + whole + 5 * expert // 2)
    # Five experts on two ranks: the fuller one has three.
    assert weight_bytes(TINY, 2, "bfloat16", expert_parallel=True) == 2 * (halves + whole + 3 * expert)


def test_routers_stay_at_two_bytes() -> None:
    linear = weight_bytes(QWEN3_30B_A3B, 1, "bfloat16") - weight_bytes(QWEN3_30B_A3B, 1, "fp8")
    model = QWEN3_30B_A3B
    assert linear == 48 * (model.attention_parameters + 128 * model.expert_parameters)


@pytest.mark.parametrize("stages", [1, 2, 3, 5])
@pytest.mark.parametrize("dtype", ["bfloat16", "int4"])
def test_stages_together_hold_the_model_once(stages: int, dtype: str) -> None:
    parts = [
        weight_bytes(MIXTRAL_8X7B, 2, dtype, stage=stage) for stage in pipeline_stages(MIXTRAL_8X7B, stages)
    ]
    assert sum(parts) == weight_bytes(MIXTRAL_8X7B, 2, dtype)


def test_a_tied_embedding_is_needed_at_both_ends() -> None:
    tied = replace(LLAMA_8B, tied_embeddings=True)
    first, middle, last = (
        weight_bytes(tied, 1, "bfloat16", stage=stage) for stage in pipeline_stages(tied, 3)
    )
    embedding = 2 * tied.embedding_parameters
    layer = 2 * (tied.attention_parameters + tied.mlp_parameters + tied.norm_parameters)
    # 32 layers in three stages: 11, 11 and 10.
    assert (first, middle, last) == (11 * layer + embedding, 11 * layer, 10 * layer + embedding + 2 * 4096)


def test_layers_with_states_are_split_by_head() -> None:
    kimi, nemotron = load_model("kimi-linear-48b-a3b"), load_model("nemotron-h-8b")
    for model in (kimi, nemotron):
        assert weight_bytes(model, 1, "bfloat16") == 2 * model.parameters
    # Kimi Delta Attention: the ways down to two gates of 128 elements and a norm stay whole, as do the latent's way
    # down and its norm, norms and routers.
    whole = 20 * (2 * 2304 * 128 + 128) + 7 * (2304 * 576 + 512) + 27 * 2 * 2304 + 2304 + 26 * 2304 * 256
    assert weight_bytes(kimi, 8, "bfloat16") == 2 * (whole + (kimi.parameters - whole) // 8)
    # Nemotron-H: one norm a layer, and the last.
    whole = 53 * 4096
    assert weight_bytes(nemotron, 8, "bfloat16") == 2 * (whole + (nemotron.parameters - whole) // 8)
    with pytest.raises(BadInput, match="tensor_parallel_size 16 does not divide nemotron-h-8b"):
        weight_bytes(nemotron, 16, "bfloat16")


@pytest.mark.parametrize("name", ["kimi-linear-48b-a3b", "nemotron-h-8b"])
@pytest.mark.parametrize("stages", [2, 3, 5])
def test_stages_of_a_hybrid_hold_their_own_layers(name: str, stages: int) -> None:
    model = load_model(name)
    parts = [weight_bytes(model, 2, "bfloat16", stage=stage) for stage in pipeline_stages(model, stages)]
    assert sum(parts) == weight_bytes(model, 2, "bfloat16")


def test_an_mlp_without_a_gate_has_two_matrices_and_a_smaller_peak() -> None:
    plain = replace(LLAMA_8B, gated_mlp=False)
    assert LLAMA_8B.parameters - plain.parameters == 32 * 4096 * 14336
    workspace = Workspace.of("0.19.0")
    gated, ungated = (workspace.activation_bytes(model, 1, 1, 8192) for model in (LLAMA_8B, plain))
    assert gated - ungated == 2 * 8192 * 14336


SETTINGS: dict[str, Any] = {
    "tensor_parallel_size": 1,
    "weight_dtype": "bfloat16",
    "kv_dtype": "bfloat16",
    "block_size": 16,
    "gpu_memory_utilization": 0.9,
    "max_model_len": 8192,
    "max_num_seqs": 256,
    "max_num_batched_tokens": 8192,
    "engine_version": "0.19.0",
}


def fit(model: Model, gpu: Any = H100, **changes: Any) -> MemoryFit:
    return fit_memory(MemoryQuestion(model, gpu, **{**SETTINGS, **changes}))


def test_what_does_not_fit_on_one_gpu_fits_in_stages_or_at_four_bits() -> None:
    with pytest.raises(Infeasible, match="mixtral-8x7b on 1 x h100"):
        fit(MIXTRAL_8X7B)
    assert fit(MIXTRAL_8X7B, weight_dtype="int4").concurrency(8192) > 30
    staged = fit(MIXTRAL_8X7B, pipeline_parallel_size=2)
    assert staged.bytes_per_token == 16 * 2 * 8 * 128 * 2
    with pytest.raises(Infeasible, match="qwen3-30b-a3b on 2 x h100"):
        fit(QWEN3_30B_A3B, pipeline_parallel_size=2, max_model_len=1 << 22)


def test_the_stage_with_the_fewest_blocks_decides() -> None:
    # 32 layers in three stages of 11, 11 and 10. With a sampler that needs much, the last one decides in spite of it.
    sampling = fit(LLAMA_8B, pipeline_parallel_size=3, max_num_seqs=8192)
    assert "PP 3: last stage, 10 layers, decides" in next(
        line.note for line in sampling.lines if line.name == "weights"
    )
    plain = fit(LLAMA_8B, pipeline_parallel_size=3, max_num_seqs=1)
    assert "PP 3: first stage, 11 layers, decides" in next(
        line.note for line in plain.lines if line.name == "weights"
    )


def test_experts_dealt_out_unevenly_leave_less_room() -> None:
    model = replace(QWEN3_30B_A3B, experts=Experts(9, 8, 8192))
    split, dealt = (
        fit(model, H200, tensor_parallel_size=4, expert_parallel=dealt) for dealt in (False, True)
    )
    assert dealt.num_gpu_blocks < split.num_gpu_blocks
    assert "TP 4 with whole experts" in next(line.note for line in dealt.lines if line.name == "weights")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pipeline_parallel_size": 33}, "pipeline_parallel_size 33, expected 1 to 32"),
        ({"kv_dtype": "int8"}, "KV dtype 'int8'"),
    ],
)
def test_impossible_settings_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        fit(LLAMA_8B, **changes)
