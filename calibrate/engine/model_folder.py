"""A folder with a ``config.json``, which is all that an engine needs of a model whose weights are random."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from calibrate.stated import stated_model
from capsim.catalog import Model, read_config
from capsim.errors import BadInput, Fault

_NORM_EPSILON, _ROPE_THETA = 1e-5, 500_000.0  # neither has a say in how long a step takes


def model_of(name: str, folder: Path) -> tuple[Model, Path]:
    """A model and the folder with its ``config.json``.

    Args:
        name: of the catalog, the path of a model's YAML file, or a folder that holds a ``config.json``.
        folder: where to write that file for a model of the catalog.

    Raises:
        BadInput: no such model, or one whose configuration capsim does not write.
    """
    given = Path(name)
    if (given / "config.json").exists():
        return read_config(given / "config.json", given.resolve().name), given
    model = stated_model(name)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config_of(model), indent=1) + "\n", encoding="utf-8")
    return model, folder


def config_of(model: Model) -> dict[str, Any]:
    """The ``config.json`` of a dense decoder with grouped-query attention.

    Raises:
        BadInput: another kind of model.
    """
    if model.attention != "gqa" or model.experts is not None or model.vision is not None or model.mlp_layers:
        what = f"{model.name} is no dense text model with grouped-query attention"
        raise BadInput(Fault("--model", what, "", "the folder of its published config.json"))
    architecture, kind = "LlamaForCausalLM", "llama"
    if model.qk_norm:
        architecture, kind = "Qwen3ForCausalLM", "qwen3"
    elif model.attention_bias:
        architecture, kind = "Qwen2ForCausalLM", "qwen2"
    return {
        "architectures": [architecture],
        "model_type": kind,
        "hidden_size": model.hidden_size,
        "intermediate_size": model.intermediate_size,
        "num_hidden_layers": model.layers,
        "num_attention_heads": model.attention_heads,
        "num_key_value_heads": model.kv_heads,
        "head_dim": model.head_dim,
        "hidden_act": "silu",
        "vocab_size": model.vocabulary_size,
        "max_position_embeddings": model.max_position_embeddings,
        "rms_norm_eps": _NORM_EPSILON,
        "rope_theta": _ROPE_THETA,
        "tie_word_embeddings": model.tied_embeddings,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "torch_dtype": "bfloat16",
        "initializer_range": 0.02,
    }
