"""Layers with linear attention from a model's ``config.json``: which they are, and of what shape.

Keys and defaults: transformers (``qwen3_next``, ``qwen3_5``), the code published with Kimi-Linear (``kimi_linear``)
and with Nemotron-H (``nemotron_h``). Dtypes of the states are those that vLLM keeps them in unless it is told otherwise
(MambaStateDtypeCalculator of vllm/model_executor/layers/mamba/mamba_utils.py, and the settings of Nemotron-H and of
Qwen3.5 in vllm/model_executor/models/config.py).
"""

from __future__ import annotations

from typing import NamedTuple

from capsim.catalog.attention import STATE_BYTES, LinearAttention
from capsim.catalog.config_keys import ConfigKeys
from capsim.catalog.layer_types import ATTENTION, MLP, SYMBOLS, every, listed, of_symbol


class LinearLayers(NamedTuple):
    """The linear attention of a model, and the layers that have something else.

    Attributes:
        attention: of the linear layers.
        full_layers: indices of the layers that see everything.
        mlp_layers: indices of the layers that are an MLP alone.
    """

    attention: LinearAttention
    full_layers: tuple[int, ...]
    mlp_layers: tuple[int, ...] = ()


def read_linear(keys: ConfigKeys, rule: str, layers: int) -> LinearLayers:
    """The linear layers of a config; without meaning where `keys` has found faults.

    Args:
        keys: of the language model.
        rule: one of `capsim.catalog.attention.LINEAR_RULES`.
        layers: of the model.
    """
    readers = {"gated-delta": _gated_delta, "kimi-delta": _kimi_delta, "mamba2": _mamba2}
    return readers[rule](keys, layers)


def _gated_delta(keys: ConfigKeys, layers: int) -> LinearLayers:
    attention = LinearAttention(
        key_heads=keys.count("linear_num_key_heads"),
        value_heads=keys.count("linear_num_value_heads"),
        key_head_dim=keys.count("linear_key_head_dim"),
        value_head_dim=keys.count("linear_value_head_dim"),
        kernel=keys.count("linear_conv_kernel_dim"),
        state_bytes=STATE_BYTES[keys.word("mamba_ssm_dtype", tuple(STATE_BYTES), "bfloat16")],
    )
    full = listed(keys, layers, "linear_attention")
    return LinearLayers(attention, full or every(keys.count("full_attention_interval", 4), layers))


def _kimi_delta(keys: ConfigKeys, layers: int) -> LinearLayers:
    """Kimi Delta Attention as in Kimi-Linear; what its successors add to it has weights that are not counted."""
    keys.refuse(key for key in ("mla_use_output_gate", "routed_expert_hidden_size") if keys.get(key))
    inner = keys.inner("linear_attn_config")
    known = {"kda_layers", "full_attn_layers", "num_heads", "head_dim", "short_conv_kernel_size"}
    inner.refuse(key for key in inner if key not in known and inner.get(key) is not None)
    heads, head_dim = inner.count("num_heads"), inner.count("head_dim")
    attention = LinearAttention(
        key_heads=heads,
        value_heads=heads,
        key_head_dim=head_dim,
        value_head_dim=head_dim,
        kernel=inner.count("short_conv_kernel_size"),
        state_bytes=STATE_BYTES["float32"],
        rule="kimi-delta",
    )
    full = inner.positions("full_attn_layers", layers)
    inner.complement("kda_layers", full, layers)
    return LinearLayers(attention, full)


def _mamba2(keys: ConfigKeys, layers: int) -> LinearLayers:
    for key in ("attention_bias", "mamba_proj_bias", "mlp_bias", "use_bias"):
        keys.only(key, False)
    keys.only("use_conv_bias", True)
    attention = LinearAttention(
        key_heads=keys.count("n_groups"),
        value_heads=keys.count("mamba_num_heads"),
        key_head_dim=keys.count("ssm_state_size"),
        value_head_dim=keys.count("mamba_head_dim"),
        kernel=keys.count("conv_kernel"),
        state_bytes=STATE_BYTES[keys.word("mamba_ssm_cache_dtype", tuple(STATE_BYTES), "float32")],
        rule="mamba2",
    )
    pattern = keys.pattern("hybrid_override_pattern", SYMBOLS, layers)
    return LinearLayers(attention, of_symbol(pattern, ATTENTION), of_symbol(pattern, MLP))
