"""A model's architecture from the ``config.json`` that is published with its weights on Hugging Face.

Keys and defaults are those of the configuration classes of transformers (src/transformers/models). A model type, or a
key that may change the attention, that is not understood is refused by name: a guess would miscount the KV cache.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from capsim import documents
from capsim.catalog.attention import LatentAttention
from capsim.catalog.config_keys import ConfigKeys, raise_faults
from capsim.catalog.family import FAMILIES, Family
from capsim.catalog.layer_types import every, listed
from capsim.catalog.linear_config import read_linear
from capsim.catalog.model import Experts, Model
from capsim.catalog.schema import closest
from capsim.catalog.vision_config import has_encoder, read_vision
from capsim.errors import BadInput

CONCERNS_ATTENTION = re.compile(
    r"attn|attention|window|head|kv_|lora|ssm|mamba|conv|linear_|layer_types|block_type|hybrid"
)
"""Keys that may change the attention: each is understood, known to be harmless, or refused."""

HARMLESS = frozenset(
    {
        "attention_dropout",
        "attn_implementation",
        "_attn_implementation",
        "_attn_implementation_autoset",
        "_attn_implementation_internal",
        "add_cross_attention",
        "attn_logit_softcapping",
        "output_attentions",
        "pruned_heads",
        "is_decoder",
        "query_pre_attn_scalar",
        "use_flash_attn",
        "use_bidirectional_attention",
        "attention_multiplier",
        "qk_head_dim",
        "sliding_window_size",
        "linear_attention_dropout",
        "mamba_hidden_act",
        "use_mamba_kernels",
    }
)
"""Keys that concern attention and change neither its weights nor its KV cache."""


def read_config(path: Path, name: str = "") -> Model:
    """Architecture of a model from its ``config.json``.

    Of a model that also sees, the language model is read (``text_config``), to whose KV cache an image is plain tokens,
    and the encoder where it is understood (`capsim.catalog.vision_config.ENCODERS`): otherwise `Model.source` says that
    its weights are not counted. Layers that predict further tokens (``num_nextn_predict_layers``) are left out, as
    engines do unless they speculate with them.

    Args:
        path: the file.
        name: of the model; empty: the name of the folder that the file is in.

    Raises:
        BadInput: every fault of the file: not JSON, a model type or a key about attention that is not understood,
            a missing key, or a size that is none.
    """
    document = documents.load(path)
    data = document.data if isinstance(document.data, dict) else {}
    inner = ("text_config",) if isinstance(data.get("text_config"), dict) else ()
    keys = ConfigKeys(document, inner)
    model_type = str(keys.get("model_type", data.get("model_type")))
    family = FAMILIES.get(model_type)
    if family is None:
        place = (*inner, "model_type") if keys.get("model_type") is not None else ("model_type",)
        known = ", ".join(FAMILIES)
        what = f"model type {model_type!r} is not understood"
        raise BadInput(document.fault(place, what, f"one of {known}", closest(model_type, FAMILIES)))
    keys.refuse(
        key
        for key in keys
        if CONCERNS_ATTENTION.search(key)
        and key not in family.attention | HARMLESS
        and keys.get(key) is not None
    )
    outer = ConfigKeys(document)
    tied = outer.flag("tie_word_embeddings", family.tied)
    model = _model(keys, family, name or path.resolve().parent.name, str(path), tied)
    raise_faults(outer, keys)
    vision = read_vision(document, model.hidden_size)
    if vision is None and has_encoder(document):
        return replace(model, source=f"{model.source}; its vision encoder is not counted")
    return replace(model, vision=vision)


def _model(keys: ConfigKeys, family: Family, name: str, source: str, tied: bool) -> Model:
    """The model that the keys describe; without meaning where `keys` has found faults.

    Args:
        keys: of the language model.
        family: its model type's.
        name: of the model.
        source: where the keys stand.
        tied: what the whole model says of its embeddings.
    """
    layers, hidden = keys.count("num_hidden_layers"), keys.count("hidden_size")
    for key, value in family.fixed.items():
        keys.only(key, value)
    for key, word in family.uniform.items():
        keys.words(key, (word,), layers)
    heads = keys.count("num_attention_heads", family.defaults.get("num_attention_heads"))
    latent = _latent(keys) if "kv_lora_rank" in family.attention else None
    linear = read_linear(keys, family.linear, layers) if family.linear else None
    window, full = (None, ()) if "sliding_window" not in family.attention else _window(keys, family, layers)
    kinds = {"linear": linear, "mla": latent, "sliding-window": window}
    kv_heads = keys.count("num_key_value_heads", family.defaults.get("num_key_value_heads", heads))
    usual = family.defaults.get("head_dim", max(1, hidden // heads))
    head_dim = keys.count("head_dim", keys.count("attention_head_dim", usual))
    return Model(
        name=name,
        attention=next((kind for kind, shape in kinds.items() if shape is not None), "gqa"),
        layers=layers,
        hidden_size=hidden,
        # A config without a dense layer may leave out the width of one.
        intermediate_size=keys.count("intermediate_size", keys.get("moe_intermediate_size")),
        attention_heads=heads,
        kv_heads=1 if latent else kv_heads,
        head_dim=latent.value_head_dim if latent else head_dim,
        vocabulary_size=keys.count("vocab_size", family.defaults.get("vocab_size")),
        tied_embeddings=keys.flag("tie_word_embeddings", tied),
        max_position_embeddings=keys.count(
            family.key("max_position_embeddings"), family.defaults.get("max_position_embeddings")
        ),
        source=source,
        qk_norm=family.qk_norm or keys.flag("use_qk_norm", False),
        attention_bias=keys.flag("attention_bias", family.bias),
        experts=_experts(keys, family, layers) if family.experts else None,
        latent=latent,
        window=window,
        linear=linear.attention if linear else None,
        full_layers=linear.full_layers if linear else full,
        mlp_layers=linear.mlp_layers if linear else (),
        gated_mlp=family.gated_mlp,
        output_gate=family.output_gate,
    )


def _latent(keys: ConfigKeys) -> LatentAttention:
    return LatentAttention(
        kv_rank=keys.count("kv_lora_rank"),
        rope_head_dim=keys.count("qk_rope_head_dim"),
        nope_head_dim=keys.count("qk_nope_head_dim"),
        value_head_dim=keys.count("v_head_dim"),
        query_rank=keys.count("q_lora_rank", 0),
        index_head_dim=keys.count("index_head_dim", 0),
    )


def _window(keys: ConfigKeys, family: Family, layers: int) -> tuple[int | None, tuple[int, ...]]:
    """The window, and the layers that see everything; None and no layers where all do."""
    window = keys.get("sliding_window")
    if window is None or (
        "use_sliding_window" in family.attention and not keys.flag("use_sliding_window", False)
    ):
        return None, ()
    size = keys.count("sliding_window")
    if keys.get("layer_types") is not None:
        return size, listed(keys, layers, "sliding_attention")
    if "max_window_layers" in family.attention:
        return size, tuple(range(keys.count("max_window_layers", layers)))
    step = keys.count("sliding_window_pattern", keys.count("_sliding_window_pattern", family.every))
    return size, every(step, layers)


def _experts(keys: ConfigKeys, family: Family, layers: int) -> Experts | None:
    """The experts, which must stand in every layer but some leading ones."""
    keys.only("moe_layer_freq", 1)
    keys.only("decoder_sparse_step", 1)
    keys.only("mlp_only_layers", [])
    # Mixtral and gpt-oss have no width of their own for experts.
    width = keys.count("moe_intermediate_size", keys.get("intermediate_size"))
    shared, left = divmod(keys.count("shared_expert_intermediate_size", 0), width)
    if left:
        keys.refuse(["shared_expert_intermediate_size"])
    return Experts(
        count=keys.count(family.experts),
        per_token=keys.count(family.key("num_experts_per_tok")),
        intermediate_size=width,
        shared=shared + keys.count(family.key("n_shared_experts"), 0),
        dense_layers=min(keys.count("first_k_dense_replace", 0), layers),
    )
