"""Encoders of images against the checkpoints' own counts of weights (safetensors.total on Hugging Face)."""

from pathlib import Path

import pytest

from capsim.catalog import load_model
from tests.catalog.test_hugging_face import CONFIGS, Config, faults, read, sizes

GEMMA = CONFIGS["gemma-3-27b"]
MISTRAL: Config = {
    "model_type": "mistral3",
    "multimodal_projector_bias": False,
    "spatial_merge_size": 2,
    "text_config": {
        "model_type": "mistral",
        **sizes(40, 5120, 32768, 32, 8, 131072),
        "head_dim": 128,
        "max_position_embeddings": 131072,
        "sliding_window": None,
    },
    "vision_config": {
        "model_type": "pixtral",
        "num_hidden_layers": 24,
        "hidden_size": 1024,
        "intermediate_size": 4096,
        "num_attention_heads": 16,
        "head_dim": 64,
        "image_size": 1540,
        "patch_size": 14,
    },
}
QWEN_2_5: Config = {
    "model_type": "qwen2_5_vl",
    **sizes(28, 3584, 18944, 28, 4, 152064),
    "max_position_embeddings": 128000,
    "max_window_layers": 28,
    "sliding_window": 32768,
    "use_sliding_window": False,
    "tie_word_embeddings": False,
    "vision_config": {
        "depth": 32,
        "hidden_size": 1280,
        "intermediate_size": 3420,
        "num_heads": 16,
        "out_hidden_size": 3584,
        "patch_size": 14,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
        "window_size": 112,
    },
}
QWEN_3: Config = {
    "model_type": "qwen3_vl",
    "tie_word_embeddings": False,
    "text_config": {
        "model_type": "qwen3_vl_text",
        **sizes(36, 4096, 12288, 32, 8, 151936),
        "head_dim": 128,
        "max_position_embeddings": 262144,
        "attention_bias": False,
    },
    "vision_config": {
        "model_type": "qwen3_vl",
        "deepstack_visual_indexes": [8, 16, 24],
        "depth": 27,
        "hidden_size": 1152,
        "intermediate_size": 4304,
        "num_heads": 16,
        "num_position_embeddings": 2304,
        "out_hidden_size": 4096,
        "patch_size": 16,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
    },
}


@pytest.mark.parametrize(
    ("config", "published"),
    [
        pytest.param(MISTRAL, 24011361280, id="mistralai/Mistral-Small-3.1-24B-Instruct-2503"),
        pytest.param(QWEN_2_5, 8292166656, id="Qwen/Qwen2.5-VL-7B-Instruct"),
        pytest.param(QWEN_3, 8767123696, id="Qwen/Qwen3-VL-8B-Instruct"),
    ],
)
def test_a_model_that_sees_is_counted_to_the_last_weight(
    tmp_path: Path, config: Config, published: int
) -> None:
    model = read(tmp_path, config)
    assert model.vision is not None
    assert model.parameters + model.vision.parameters == published


def test_gemmas_encoder_is_counted_to_the_last_weight() -> None:
    # google/gemma-3-27b-it; the language model is counted without two of the four norms that each layer has.
    model = load_model("gemma-3-27b")
    assert model.vision is not None
    norms = 2 * model.layers * model.hidden_size
    assert model.parameters + norms + model.vision.parameters == 27432406640


def test_the_largest_images_tokens(tmp_path: Path) -> None:
    found = [read(tmp_path, config).vision for config in (GEMMA, MISTRAL, QWEN_2_5, QWEN_3)]
    # Gemma averages 4,096 patches to 256 tokens; 1,540 pixels are 55 rows of 28, each of which ends with a token more;
    # Qwen's processor allows 16,384.
    assert [vision.image_tokens for vision in found if vision] == [256, 55 * 56, 16384, 16384]
    # Qwen3-VL's outputs carry those of three inner layers.
    assert [vision.token_elements for vision in found if vision] == [5376, 5120, 3584, 4 * 4096]


def test_the_whole_models_word_on_embeddings_counts(tmp_path: Path) -> None:
    tied = read(tmp_path, {**QWEN_3, "tie_word_embeddings": True})
    assert read(tmp_path, QWEN_3).parameters - tied.parameters == tied.embedding_parameters


def test_an_encoder_that_is_not_understood_is_said_not_to_be_counted(tmp_path: Path) -> None:
    other = read(tmp_path, {**GEMMA, "model_type": "other"})
    assert other.vision is None
    assert other.source.endswith("config.json; its vision encoder is not counted")
    blind = {key: value for key, value in GEMMA.items() if key != "vision_config"}
    assert read(tmp_path, blind).vision is None
    assert "not counted" not in read(tmp_path, blind).source


def test_faults_of_an_encoder_have_their_place(tmp_path: Path) -> None:
    broken = {
        **MISTRAL,
        "spatial_merge_size": 0,
        "vision_config": {"model_type": "siglip", "hidden_size": "x"},
    }
    assert faults(tmp_path, broken) == [
        "spatial_merge_size: 0 is no size",
        "vision_config.model_type: 'siglip' is not understood",
        "vision_config.num_hidden_layers: is missing",
        "vision_config.hidden_size: 'x' is no size",
        "vision_config.intermediate_size: is missing",
        "vision_config.patch_size: is missing",
        "vision_config.image_size: is missing",
    ]
