"""Published ``config.json`` files, cut to the keys that describe the architecture, against the catalog's entries."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from capsim.catalog import load_model
from capsim.catalog.hugging_face import FAMILIES, read_config
from capsim.catalog.model import Model
from capsim.errors import BadInput, Fault

Config = dict[str, Any]


def sizes(layers: int, hidden: int, intermediate: int, heads: int, kv_heads: int, vocabulary: int) -> Config:
    return {
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "intermediate_size": intermediate,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "vocab_size": vocabulary,
    }


LLAMA = {
    "model_type": "llama",
    **sizes(32, 4096, 14336, 32, 8, 128256),
    "max_position_embeddings": 131072,
    "attention_bias": False,
    "attention_dropout": 0.0,
    "tie_word_embeddings": False,
}
LATENT = {
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "moe_layer_freq": 1,
}
SIGLIP = {
    "model_type": "siglip_vision_model",
    "num_hidden_layers": 27,
    "hidden_size": 1152,
    "intermediate_size": 4304,
    "num_attention_heads": 16,
    "image_size": 896,
    "patch_size": 14,
    "vision_use_head": False,
}
CONFIGS: dict[str, Config] = {
    "llama-3.1-8b": LLAMA,
    "qwen2.5-7b": {
        "model_type": "qwen2",
        **sizes(28, 3584, 18944, 28, 4, 152064),
        "max_position_embeddings": 32768,
        "max_window_layers": 28,
        "sliding_window": 131072,
        "use_sliding_window": False,
        "tie_word_embeddings": False,
    },
    "qwen3-30b-a3b": {
        "model_type": "qwen3_moe",
        **sizes(48, 2048, 6144, 32, 4, 151936),
        "head_dim": 128,
        "max_position_embeddings": 40960,
        "num_experts": 128,
        "num_experts_per_tok": 8,
        "moe_intermediate_size": 768,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
        "sliding_window": None,
        "attention_bias": False,
    },
    "mixtral-8x7b": {
        "model_type": "mixtral",
        **sizes(32, 4096, 14336, 32, 8, 32000),
        "max_position_embeddings": 32768,
        "num_local_experts": 8,
        "num_experts_per_tok": 2,
        "sliding_window": None,
    },
    "deepseek-v2-lite": {
        "model_type": "deepseek_v2",
        **sizes(27, 2048, 10944, 16, 16, 102400),
        **LATENT,
        "q_lora_rank": None,
        "max_position_embeddings": 163840,
        "n_routed_experts": 64,
        "n_shared_experts": 2,
        "num_experts_per_tok": 6,
        "moe_intermediate_size": 1408,
        "first_k_dense_replace": 1,
    },
    "deepseek-v3": {
        "model_type": "deepseek_v3",
        **sizes(61, 7168, 18432, 128, 128, 129280),
        **LATENT,
        "q_lora_rank": 1536,
        "max_position_embeddings": 163840,
        "n_routed_experts": 256,
        "n_shared_experts": 1,
        "num_experts_per_tok": 8,
        "moe_intermediate_size": 2048,
        "first_k_dense_replace": 3,
        "num_nextn_predict_layers": 1,
    },
    # The published file leaves the vocabulary, the pattern and the longest sequence to the code.
    "gemma-3-27b": {
        "model_type": "gemma3",
        "text_config": {
            "model_type": "gemma3_text",
            "num_hidden_layers": 62,
            "hidden_size": 5376,
            "intermediate_size": 21504,
            "num_attention_heads": 32,
            "num_key_value_heads": 16,
            "head_dim": 128,
            "query_pre_attn_scalar": 168,
            "sliding_window": 1024,
        },
        "mm_tokens_per_image": 256,
        "vision_config": SIGLIP,
    },
    "gpt-oss-20b": {
        "model_type": "gpt_oss",
        **sizes(24, 2880, 2880, 64, 8, 201088),
        "head_dim": 64,
        "attention_bias": True,
        "max_position_embeddings": 131072,
        "num_local_experts": 32,
        "num_experts_per_tok": 4,
        "sliding_window": 128,
        "layer_types": ["sliding_attention", "full_attention"] * 12,
        "tie_word_embeddings": False,
    },
    "qwen3-next-80b-a3b": {
        "model_type": "qwen3_next",
        **sizes(48, 2048, 5120, 16, 2, 151936),
        "head_dim": 256,
        "max_position_embeddings": 262144,
        "full_attention_interval": 4,
        "linear_conv_kernel_dim": 4,
        "linear_key_head_dim": 128,
        "linear_num_key_heads": 16,
        "linear_num_value_heads": 32,
        "linear_value_head_dim": 128,
        "num_experts": 512,
        "num_experts_per_tok": 10,
        "moe_intermediate_size": 512,
        "shared_expert_intermediate_size": 512,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
    },
    "kimi-linear-48b-a3b": {
        "model_type": "kimi_linear",
        **sizes(27, 2304, 9216, 32, 32, 163840),
        "head_dim": 72,
        "kv_lora_rank": 512,
        "q_lora_rank": None,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
        "mla_use_nope": True,
        "model_max_length": 1048576,
        "linear_attn_config": {
            "full_attn_layers": [4, 8, 12, 16, 20, 24, 27],
            "kda_layers": [1, 2, 3, 5, 6, 7, 9, 10, 11, 13, 14, 15, 17, 18, 19, 21, 22, 23, 25, 26],
            "head_dim": 128,
            "num_heads": 32,
            "short_conv_kernel_size": 4,
        },
        "num_experts": 256,
        "num_experts_per_token": 8,
        "num_shared_experts": 1,
        "moe_intermediate_size": 1024,
        "moe_layer_freq": 1,
        "first_k_dense_replace": 1,
        "tie_word_embeddings": False,
    },
    "glm-4.5-air": {
        "model_type": "glm4_moe",
        **sizes(46, 4096, 10944, 96, 8, 151552),
        "head_dim": 128,
        "attention_bias": True,
        "use_qk_norm": False,
        "max_position_embeddings": 131072,
        "n_routed_experts": 128,
        "n_shared_experts": 1,
        "num_experts_per_tok": 8,
        "moe_intermediate_size": 1408,
        "first_k_dense_replace": 1,
        "num_nextn_predict_layers": 1,
    },
}

# Its layers are not all of a kind that holds something: 24 are an MLP alone.
NEMOTRON_H: Config = {
    "model_type": "nemotron_h",
    **sizes(52, 4096, 21504, 32, 8, 131072),
    "attention_bias": False,
    "attention_head_dim": 128,
    "conv_kernel": 4,
    "hybrid_override_pattern": "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-",
    "mamba_head_dim": 64,
    "mamba_hidden_act": "silu",
    "mamba_num_heads": 128,
    "mamba_proj_bias": False,
    "max_position_embeddings": 8192,
    "mlp_bias": False,
    "n_groups": 8,
    "ssm_state_size": 128,
    "tie_word_embeddings": False,
    "use_bias": False,
    "use_conv_bias": True,
    "use_mamba_kernels": True,
}


def read(tmp_path: Path, config: Config) -> Model:
    folder = tmp_path / "model"
    folder.mkdir(exist_ok=True)
    path = folder / "config.json"
    path.write_text(json.dumps(config, indent=1), encoding="utf-8")
    return read_config(path)


def faults(tmp_path: Path, config: Config) -> list[str]:
    with pytest.raises(BadInput) as refusal:
        read(tmp_path, config)
    return [f"{fault.key}: {fault.what}" for fault in refusal.value.faults if isinstance(fault, Fault)]


@pytest.mark.parametrize(("name", "config"), [*CONFIGS.items(), ("nemotron-h-8b", NEMOTRON_H)])
def test_published_configs_give_the_catalogs_entries(tmp_path: Path, name: str, config: Config) -> None:
    known = load_model(name)
    assert read(tmp_path, config) == replace(
        known, name="model", source=str(tmp_path / "model" / "config.json")
    )


def test_windows_stand_where_the_config_says(tmp_path: Path) -> None:
    everywhere = {**LLAMA, "model_type": "mistral", "sliding_window": 4096}
    (group,) = read(tmp_path, everywhere).layer_groups
    assert (group.attention.kind, len(group.layers)) == ("window", 32)
    later = {**LLAMA, "model_type": "qwen2", "sliding_window": 4096, "use_sliding_window": True}
    full, window = read(tmp_path, {**later, "max_window_layers": 20}).layer_groups
    assert (full.layers[-1], window.layers[0]) == (19, 20)
    gemma_2 = read(tmp_path, {**LLAMA, "model_type": "gemma2", "sliding_window": 4096})
    assert gemma_2.full_layers == tuple(range(1, 32, 2))


def test_an_unknown_model_type_is_refused_with_its_place(tmp_path: Path) -> None:
    with pytest.raises(BadInput) as no:
        read(tmp_path, {**LLAMA, "model_type": "lama"})
    assert "config.json:2:16: model_type: model type 'lama' is not understood" in str(no.value)
    assert str(no.value).endswith("did you mean 'llama'?")
    assert all(family in str(no.value) for family in FAMILIES)
    nested = {"model_type": "gemma3", "text_config": {**LLAMA, "model_type": "gemma3n_text"}}
    assert faults(tmp_path, nested) == ["text_config.model_type: model type 'gemma3n_text' is not understood"]
    with pytest.raises(BadInput, match="model type 'None' is not understood"):
        read(tmp_path, {"hidden_size": 8})


@pytest.mark.parametrize(
    "key", ["sliding_window", "num_kv_shared_layers", "attention_chunk_size", "kv_lora_rank", "mamba_d_state"]
)
def test_keys_that_may_change_the_attention_are_refused_by_name(tmp_path: Path, key: str) -> None:
    assert faults(tmp_path, {**LLAMA, key: 64}) == [
        f"{key}: is not understood, and may change the weights or the KV cache"
    ]
    # Null says that it is not used.
    assert read(tmp_path, {**LLAMA, key: None}).attention == "gqa"


def test_every_fault_is_reported(tmp_path: Path) -> None:
    config = {**LLAMA, "hidden_size": "large", "num_key_value_heads": -1, "tie_word_embeddings": 1}
    del config["vocab_size"]
    assert sorted(faults(tmp_path, config)) == [
        "hidden_size: 'large' is no size",
        "num_key_value_heads: -1 is no size",
        "tie_word_embeddings: 1 is neither true nor false",
        "vocab_size: is missing",
    ]


def test_layers_and_experts_of_other_patterns_are_refused(tmp_path: Path) -> None:
    gpt_oss, experts = CONFIGS["gpt-oss-20b"], CONFIGS["qwen3-next-80b-a3b"]
    short = {**gpt_oss, "layer_types": ["full_attention"]}
    assert faults(tmp_path, short) == ["layer_types: a list of another length than the layers"]
    chunked = {**gpt_oss, "layer_types": ["chunked_attention"] * 24}
    assert faults(tmp_path, chunked) == ["layer_types: 'chunked_attention' is not understood"]
    some = {
        **experts,
        "decoder_sparse_step": 2,
        "mlp_only_layers": [3],
        "shared_expert_intermediate_size": 700,
    }
    assert faults(tmp_path, some) == [
        "decoder_sparse_step: 2 is not understood",
        "mlp_only_layers: a list is not understood",
        "shared_expert_intermediate_size: is not understood, and may change the weights or the KV cache",
    ]


def test_another_pattern_gives_another_size(tmp_path: Path) -> None:
    # Nemotron-Nano-9B-v2, whose checkpoint has 8,888,227,328 elements.
    nano = {
        **NEMOTRON_H,
        **sizes(56, 4480, 15680, 40, 8, 131072),
        "attention_head_dim": None,
        "head_dim": 128,
        "mamba_head_dim": 80,
        "hybrid_override_pattern": "M-M-M-MM-M-M-M*-M-M-M*-M-M-M-M*-M-M-M-M*-M-MM-M-M-M-M-M-",
        "mamba_ssm_cache_dtype": "bfloat16",
    }
    model = read(tmp_path, nano)
    assert model.parameters == 8888227328
    assert model.full_layers == (14, 21, 30, 39)
    assert model.linear is not None
    assert model.linear.state_bytes == 2


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"hybrid_override_pattern": "M-M*"}, "hybrid_override_pattern: has 4 symbols for 52 layers"),
        ({"hybrid_override_pattern": "ME" * 26}, "hybrid_override_pattern: 'E' is not understood"),
        ({"hybrid_override_pattern": None}, "hybrid_override_pattern: is missing"),
        ({"hybrid_override_pattern": ["M"] * 52}, "hybrid_override_pattern: a list is no pattern"),
        (
            {"layers_block_type": ["mamba"] * 52},
            "layers_block_type: is not understood, and may change the weights or the KV cache",
        ),
        ({"use_bias": True}, "use_bias: true is not understood"),
        ({"use_conv_bias": False}, "use_conv_bias: false is not understood"),
        ({"mamba_ssm_cache_dtype": "int8"}, "mamba_ssm_cache_dtype: 'int8' is not understood"),
    ],
)
def test_mamba_of_another_shape_is_refused(tmp_path: Path, changes: Config, fault: str) -> None:
    assert faults(tmp_path, {**NEMOTRON_H, **changes}) == [fault]


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"full_attn_layers": [4, 28]}, "full_attn_layers: 28 is no layer"),
        ({"full_attn_layers": None}, "full_attn_layers: is missing"),
        ({"full_attn_layers": "4"}, "full_attn_layers: '4' is no list"),
        ({"kda_layers": [1, 2]}, "kda_layers: does not list the other layers, each once"),
        # Of its successor, with other weights.
        (
            {"use_full_rank_gate": True},
            "use_full_rank_gate: is not understood, and may change the weights or the KV cache",
        ),
    ],
)
def test_linear_layers_that_are_not_understood_are_refused(
    tmp_path: Path, changes: Config, fault: str
) -> None:
    kimi = CONFIGS["kimi-linear-48b-a3b"]
    changed = {**kimi, "linear_attn_config": {**kimi["linear_attn_config"], **changes}}
    assert faults(tmp_path, changed) == [f"linear_attn_config.{fault}"]


def test_a_successor_with_other_weights_is_refused(tmp_path: Path) -> None:
    later = {**CONFIGS["kimi-linear-48b-a3b"], "mla_use_output_gate": True, "routed_expert_hidden_size": 3584}
    what = "is not understood, and may change the weights or the KV cache"
    assert faults(tmp_path, later) == [
        f"{key}: {what}" for key in ("mla_use_output_gate", "routed_expert_hidden_size")
    ]
    without = {key: value for key, value in later.items() if key != "linear_attn_config"}
    assert "linear_attn_config.num_heads: is missing" in faults(tmp_path, without)
