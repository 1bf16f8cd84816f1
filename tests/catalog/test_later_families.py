"""Configs of model types whose classes changed what earlier ones do, against the catalog's entries."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from capsim.catalog import load_model
from tests.catalog.test_hugging_face import CONFIGS, LATENT, Config, faults, read, sizes

HYBRID: Config = {
    "attn_output_gate": True,
    "head_dim": 256,
    "full_attention_interval": 4,
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 128,
    "linear_num_key_heads": 16,
    "linear_value_head_dim": 128,
    "mamba_ssm_dtype": "float32",
    "max_position_embeddings": 262144,
    "tie_word_embeddings": False,
}
SPARSE: Config = {
    **LATENT,
    "index_head_dim": 128,
    "index_topk": 2048,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 2048,
    "first_k_dense_replace": 3,
    "num_nextn_predict_layers": 1,
}
MINIMAX: Config = {
    "model_type": "minimax_m2",
    **sizes(62, 3072, 1536, 48, 8, 200064),
    "head_dim": 128,
    "attn_type_list": [1] * 62,
    "max_position_embeddings": 204800,
    "num_local_experts": 256,
    "num_experts_per_tok": 8,
    "shared_intermediate_size": 0,
    "use_qk_norm": True,
    "qk_norm_type": "per_layer",
    "tie_word_embeddings": False,
}
GLM_5: Config = {
    "model_type": "glm_moe_dsa",
    **sizes(78, 6144, 12288, 64, 64, 154880),
    **SPARSE,
    "head_dim": 64,
    "qk_head_dim": 256,
    "qk_nope_head_dim": 192,
    "v_head_dim": 256,
    "q_lora_rank": 2048,
    "index_n_heads": 32,
    "max_position_embeddings": 202752,
}
LATER: dict[str, Config] = {
    "minimax-m2.7": MINIMAX,
    "glm-5": GLM_5,
    "deepseek-v3.2": {
        **CONFIGS["deepseek-v3"],
        **SPARSE,
        "model_type": "deepseek_v32",
        "index_n_heads": 64,
    },
    "qwen3-coder-480b-a35b": {
        "model_type": "qwen3_moe",
        **sizes(62, 6144, 8192, 96, 8, 151936),
        "head_dim": 128,
        "max_position_embeddings": 262144,
        "num_experts": 160,
        "num_experts_per_tok": 8,
        "moe_intermediate_size": 2560,
        "shared_expert_intermediate_size": 0,
        "qkv_bias": False,
        "use_qk_norm": True,
    },
    "qwen1.5-moe-a2.7b": {
        "model_type": "qwen2_moe",
        **sizes(24, 2048, 5632, 16, 16, 151936),
        "max_position_embeddings": 8192,
        "num_experts": 60,
        "num_experts_per_tok": 4,
        "moe_intermediate_size": 1408,
        "shared_expert_intermediate_size": 5632,
        "use_sliding_window": False,
    },
    "qwen3.5-9b": {
        "model_type": "qwen3_5_text",
        **sizes(32, 4096, 12288, 16, 4, 248320),
        **HYBRID,
        "linear_num_value_heads": 32,
    },
    "seed-oss-36b": {
        "model_type": "seed_oss",
        **sizes(64, 5120, 27648, 80, 8, 155136),
        "head_dim": 128,
        "attention_bias": True,
        "attention_out_bias": False,
        "max_position_embeddings": 524288,
    },
}
# Without a dense layer, and so without the width of one.
QWEN_3_5: Config = {
    "model_type": "qwen3_5_moe_text",
    **{key: size for key, size in sizes(60, 4096, 0, 32, 2, 248320).items() if size},
    **HYBRID,
    "linear_num_value_heads": 64,
    "num_experts": 512,
    "num_experts_per_tok": 10,
    "moe_intermediate_size": 1024,
    "shared_expert_intermediate_size": 1024,
}


@pytest.mark.parametrize(("name", "config"), [*LATER.items(), ("qwen3.5-397b-a17b", QWEN_3_5)])
def test_later_configs_give_the_catalogs_entries(tmp_path: Path, name: str, config: Config) -> None:
    source = str(tmp_path / "model" / "config.json")
    assert read(tmp_path, config) == replace(load_model(name), name="model", source=source)


@pytest.mark.parametrize(
    ("config", "changes", "fault"),
    [
        (MINIMAX, {"attn_type_list": [0, *[1] * 61]}, "attn_type_list: 0 is not understood"),
        (MINIMAX, {"shared_intermediate_size": 1536}, "shared_intermediate_size: 1536 is not understood"),
        (
            GLM_5,
            {"indexer_types": [*["full"] * 3, *["shared"] * 75]},
            "indexer_types: 'shared' is not understood",
        ),
        (QWEN_3_5, {"attn_output_gate": False}, "attn_output_gate: false is not understood"),
        (QWEN_3_5, {"mamba_ssm_dtype": "int8"}, "mamba_ssm_dtype: 'int8' is not understood"),
        (LATER["seed-oss-36b"], {"attention_out_bias": True}, "attention_out_bias: true is not understood"),
        (LATER["qwen3-coder-480b-a35b"], {"qkv_bias": True}, "qkv_bias: true is not understood"),
    ],
)
def test_what_would_change_the_weights_or_the_cache_is_refused(
    tmp_path: Path, config: Config, changes: Config, fault: str
) -> None:
    assert faults(tmp_path, {**config, **changes}) == [fault]


def test_weights_that_are_published_to_the_last_are_counted_so() -> None:
    # Elements of the checkpoints in llama.cpp's form, which has no encoder and predicts one token. It counts the gate
    # of the shared expert, and no norm of queries and keys in layers with linear attention.
    hybrid, dense = load_model("qwen3.6-35b-a3b"), load_model("qwen3.5-9b")
    norms = 2 * hybrid.head_dim
    assert hybrid.parameters + 40 * hybrid.hidden_size - hybrid.linear_layers * norms == 34660610688
    assert dense.parameters - dense.linear_layers * norms == 8953803264
    # The checkpoint of Hy3 has a layer more, of which two norms, one beside them and a projection join two tokens.
    hy3 = load_model("hy3")
    assert hy3.experts is not None
    layer = hy3.attention_parameters + hy3.norm_parameters + hy3.router_parameters
    layer += (hy3.experts.count + hy3.experts.shared) * hy3.expert_parameters
    assert hy3.parameters + layer + 2 * hy3.hidden_size**2 + 3 * hy3.hidden_size == 298786140416
