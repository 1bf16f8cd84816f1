"""The vision encoder of a model from its ``config.json``.

The weights are those of transformers' modeling files of the model types named at each function. How many tokens the
largest image takes stands in the config, but for Qwen: there it is the ``max_pixels`` of the published
``preprocessor_config.json``, which vLLM reads too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from capsim.catalog.config_keys import ConfigKeys, raise_faults
from capsim.catalog.vision import Vision
from capsim.documents import Document

COLOURS = 3
"""Values of a pixel."""

QWEN_IMAGE_TOKENS = 16384
"""Tokens of the largest image: 12,845,056 pixels of 28 x 28 a token (Qwen2.5-VL), 16,777,216 of 32 x 32 (Qwen3-VL)."""


def read_vision(document: Document, hidden_size: int) -> Vision | None:
    """The encoder of a model that sees; None where there is none, or none that is understood.

    Args:
        document: the ``config.json``.
        hidden_size: of the language model, elements.

    Raises:
        BadInput: every fault of the sizes of an encoder that is understood.
    """
    read = ENCODERS.get(str(document.data.get("model_type")))
    if read is None or not has_encoder(document):
        return None
    outer, keys = ConfigKeys(document), ConfigKeys(document, ("vision_config",))
    vision = read(keys, outer, hidden_size)
    raise_faults(outer, keys)
    return vision


def has_encoder(document: Document) -> bool:
    """Whether the config describes an encoder of images, which may be none that is understood."""
    return isinstance(document.data.get("vision_config"), dict)


def _siglip(keys: ConfigKeys, outer: ConfigKeys, width: int) -> Vision:
    """SigLIP and a projection of averaged patches: ``gemma3``."""
    keys.only("model_type", "siglip_vision_model")
    keys.only("vision_use_head", False)
    layers, hidden, columns = _sizes(keys, "num_hidden_layers")
    patch, side = keys.count("patch_size"), keys.count("image_size")
    patches = (side // patch) ** 2
    matrices = 4 * hidden * hidden + 2 * hidden * columns
    # Biases of all matrices, and two norms with a bias.
    small = 5 * hidden + columns + 4 * hidden
    ends = COLOURS * patch**2 * hidden + hidden + patches * hidden + 2 * hidden
    projector = hidden * width + hidden
    return Vision(
        split_parameters=layers * matrices,
        replicated_parameters=layers * small + ends + projector,
        image_tokens=outer.count("mm_tokens_per_image", 256),
        token_elements=width,
        image_elements=COLOURS * side**2,
        layer_elements=patches * (2 * columns + 2 * hidden),
    )


def _pixtral(keys: ConfigKeys, outer: ConfigKeys, width: int) -> Vision:
    """Pixtral's encoder, a learned merge of neighbouring patches and two matrices: ``mistral3``."""
    keys.only("model_type", "pixtral")
    outer.only("multimodal_projector_bias", False)
    layers, hidden, columns = _sizes(keys, "num_hidden_layers")
    patch, side, merge = keys.count("patch_size"), keys.count("image_size"), outer.count("spatial_merge_size")
    rows = side // (patch * merge)
    merger = merge**2 * hidden * hidden
    return Vision(
        split_parameters=layers * (4 * hidden * hidden + 3 * hidden * columns) + hidden * width + width**2,
        # A norm before the layers and one before the merge.
        replicated_parameters=2 * layers * hidden + COLOURS * patch**2 * hidden + 2 * hidden + merger,
        # Each row ends with a token of its own.
        image_tokens=rows * (rows + 1),
        token_elements=width,
        image_elements=COLOURS * side**2,
        layer_elements=(side // patch) ** 2 * (3 * columns + 2 * hidden),
    )


def _qwen_2_5(keys: ConfigKeys, _outer: ConfigKeys, width: int) -> Vision:
    """Gated MLPs with biases, root-mean-square norms, one merger: ``qwen2_5_vl``."""
    layers, hidden, columns = _sizes(keys, "depth")
    matrices, small = 4 * hidden * hidden + 3 * hidden * columns, 5 * hidden + 2 * columns + 2 * hidden
    return _qwen(keys, width, layers * matrices, layers * small, mergers=1, columns=3 * columns)


def _qwen_3(keys: ConfigKeys, _outer: ConfigKeys, width: int) -> Vision:
    """Plain MLPs with biases, learned places, and a further merger at some layers: ``qwen3_vl``."""
    layers, hidden, columns = _sizes(keys, "depth")
    deep = keys.get("deepstack_visual_indexes", [8, 16, 24])
    mergers = 1 + (len(deep) if isinstance(deep, list) else 0)
    matrices, small = 4 * hidden * hidden + 2 * hidden * columns, 5 * hidden + columns + 4 * hidden
    places = keys.count("num_position_embeddings", 2304) * hidden + hidden
    # The merger's norm has a bias; those of the further ones stand behind the merge and are as wide.
    norms = hidden + (mergers - 1) * (2 * _merge(keys) - 1) * hidden
    return _qwen(
        keys, width, layers * matrices, layers * small + places + norms, mergers=mergers, columns=2 * columns
    )


def _qwen(keys: ConfigKeys, width: int, matrices: int, small: int, *, mergers: int, columns: int) -> Vision:
    """What the Qwens share: patches of two frames, mergers of neighbouring patches, the largest image.

    Args:
        keys: of the encoder.
        width: of the language model.
        matrices: weights of the layers' matrices.
        small: weights of biases, norms and places.
        mergers: each with a norm of the encoder's width and an MLP that begins at that of the merged patches.
        columns: that a patch takes in a layer's MLP.
    """
    hidden, merged = keys.count("hidden_size"), _merge(keys) * keys.count("hidden_size")
    out = keys.count("out_hidden_size", width)
    pixels = COLOURS * keys.count("temporal_patch_size", 2) * keys.count("patch_size") ** 2
    patches = QWEN_IMAGE_TOKENS * _merge(keys)
    return Vision(
        split_parameters=matrices + mergers * (merged * merged + merged * out),
        replicated_parameters=small + pixels * hidden + mergers * (hidden + merged + out),
        image_tokens=QWEN_IMAGE_TOKENS,
        token_elements=mergers * out,
        image_elements=patches * pixels,
        layer_elements=patches * (columns + 2 * hidden),
    )


def _sizes(keys: ConfigKeys, layers: str) -> tuple[int, int, int]:
    """Layers, width and columns of the MLP."""
    return keys.count(layers), keys.count("hidden_size"), keys.count("intermediate_size")


def _merge(keys: ConfigKeys) -> int:
    """Patches that become one token."""
    return keys.count("spatial_merge_size", 2) ** 2


Reader = Callable[[ConfigKeys, ConfigKeys, int], Vision]

ENCODERS: Mapping[str, Reader] = {
    "gemma3": _siglip,
    "mistral3": _pixtral,
    "qwen2_5_vl": _qwen_2_5,
    "qwen3_vl": _qwen_3,
    "qwen3_vl_moe": _qwen_3,
}
"""What is understood, by the ``model_type`` of the whole model."""
