"""What the configs of each model type leave to its code.

Keys and defaults are those of the configuration classes of transformers (src/transformers/models), and of the code
published with a model where transformers has none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

HEADS = frozenset({"num_attention_heads", "num_key_value_heads", "head_dim", "attention_bias"})
WINDOW = frozenset({"sliding_window", "layer_types"})
LATENT = frozenset({"kv_lora_rank", "q_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"})
INDEXER = frozenset({"index_head_dim", "index_n_heads"})
LINEAR = frozenset(
    {
        "linear_num_key_heads",
        "linear_num_value_heads",
        "linear_key_head_dim",
        "linear_value_head_dim",
        "linear_conv_kernel_dim",
        "full_attention_interval",
        "layer_types",
    }
)
KIMI_DELTA = frozenset({"linear_attn_config"})
MAMBA = frozenset(
    {
        "attention_head_dim",
        "conv_kernel",
        "hybrid_override_pattern",
        "mamba_head_dim",
        "mamba_num_heads",
        "mamba_proj_bias",
        "mamba_ssm_cache_dtype",
        "ssm_state_size",
        "use_conv_bias",
    }
)


@dataclass(frozen=True)
class Family:
    """What the configs of one model type leave to its code.

    Attributes:
        attention: keys about attention that are understood.
        bias: queries, keys and values have biases where ``attention_bias`` does not say.
        qk_norm: queries and keys are normed per head.
        experts: key of the number of experts; empty: dense.
        output_gate: heads' outputs are gated.
        linear: rule of the layers with linear attention, one of `capsim.catalog.attention.LINEAR_RULES`; empty: none.
        gated_mlp: an MLP has a gate beside its way up.
        tied: the output projection shares the embedding's weights where the config does not say.
        every: where the config does not say, each so many layers one sees everything and the others a window.
        defaults: further values for keys that the config may leave out.
        names: keys that it calls otherwise.
        fixed: the one value of a key that is understood, which is also what a missing key means.
        uniform: the one word that is understood of each layer in a list of them.
    """

    attention: frozenset[str] = HEADS
    bias: bool = False
    qk_norm: bool = False
    experts: str = ""
    output_gate: bool = False
    linear: str = ""
    gated_mlp: bool = True
    tied: bool = False
    every: int = 0
    defaults: Mapping[str, int] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    fixed: Mapping[str, object] = field(default_factory=dict)
    uniform: Mapping[str, object] = field(default_factory=dict)

    def key(self, name: str) -> str:
        """What the family calls a key."""
        return self.names.get(name, name)


_DEEPSEEK = Family(HEADS | LATENT, experts="n_routed_experts")
# Which tokens an indexer picks decides no weight but its own; one that layers share has fewer.
_DEEPSEEK_SPARSE = Family(
    HEADS | LATENT | INDEXER, experts="n_routed_experts", uniform={"indexer_types": "full"}
)
_GEMMA_3 = Family(
    HEADS | WINDOW | {"sliding_window_pattern", "_sliding_window_pattern"},
    qk_norm=True,
    tied=True,
    every=6,
    defaults={
        "vocab_size": 262208,
        "max_position_embeddings": 131072,
        "head_dim": 256,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
    },
)
_KIMI_LINEAR = Family(
    HEADS | LATENT | KIMI_DELTA,
    experts="num_experts",
    linear="kimi-delta",
    names={
        "num_experts_per_tok": "num_experts_per_token",
        "n_shared_experts": "num_shared_experts",
        "max_position_embeddings": "model_max_length",
    },
)
_QWEN_WINDOW = WINDOW | {"use_sliding_window", "max_window_layers"}
_QWEN_2 = Family(HEADS | _QWEN_WINDOW, bias=True)
_QWEN_3 = Family(HEADS | _QWEN_WINDOW, qk_norm=True)
_QWEN_3_EXPERTS = Family(
    HEADS | _QWEN_WINDOW | {"qkv_bias"}, qk_norm=True, experts="num_experts", fixed={"qkv_bias": False}
)
_QWEN_3_5 = Family(
    HEADS | LINEAR | {"attn_output_gate", "mamba_ssm_dtype"},
    qk_norm=True,
    output_gate=True,
    linear="gated-delta",
    fixed={"attn_output_gate": True},
)

FAMILIES: Mapping[str, Family] = {
    "deepseek_v2": _DEEPSEEK,
    "deepseek_v3": _DEEPSEEK,
    "deepseek_v32": _DEEPSEEK_SPARSE,
    "gemma": Family(tied=True),
    "gemma2": Family(HEADS | WINDOW, tied=True, every=2),
    "gemma3": _GEMMA_3,
    "gemma3_text": _GEMMA_3,
    "glm4_moe": Family(HEADS | {"use_qk_norm"}, experts="n_routed_experts"),
    "glm_moe_dsa": _DEEPSEEK_SPARSE,
    "gpt_oss": Family(HEADS | WINDOW, bias=True, experts="num_local_experts", every=2),
    "granite": Family(),
    "kimi_k2": _DEEPSEEK,
    "kimi_linear": _KIMI_LINEAR,
    "llama": Family(),
    "minimax_m2": Family(
        HEADS | {"attn_type_list"},
        experts="num_local_experts",
        fixed={"shared_intermediate_size": 0},
        uniform={"attn_type_list": 1},
    ),
    "mistral": Family(HEADS | WINDOW),
    "mixtral": Family(HEADS | WINDOW, experts="num_local_experts"),
    "nemotron_h": Family(HEADS | MAMBA, linear="mamba2", gated_mlp=False),
    "qwen2": _QWEN_2,
    "qwen2_moe": Family(HEADS | _QWEN_WINDOW, bias=True, experts="num_experts"),
    "qwen2_5_vl": _QWEN_2,
    "qwen2_5_vl_text": _QWEN_2,
    "qwen3": _QWEN_3,
    "qwen3_5_moe_text": replace(_QWEN_3_5, experts="num_experts"),
    "qwen3_5_text": _QWEN_3_5,
    "qwen3_moe": _QWEN_3_EXPERTS,
    "qwen3_next": Family(
        HEADS | LINEAR, qk_norm=True, experts="num_experts", output_gate=True, linear="gated-delta"
    ),
    "qwen3_vl_moe_text": _QWEN_3_EXPERTS,
    "qwen3_vl_text": _QWEN_3,
    "seed_oss": Family(HEADS | {"attention_out_bias"}, bias=True, fixed={"attention_out_bias": False}),
}
"""What is understood, by ``model_type``."""
