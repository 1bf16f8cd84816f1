from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from capsim import documents
from capsim.catalog import Experts, Model, gpu_names, load_gpu, load_model, model_names
from capsim.catalog.data import data_names, data_path
from capsim.catalog.loader import COMPUTE_DTYPES, FIGURES, read_gpu, read_model
from capsim.errors import BadInput, Fault

# Total parameters as the publishers state them: Llama 3 and 3.1 8B 8.03 B, Llama 3.1 and 3.3 70B 70.6 B by the
# checkpoints' own counts on Hugging Face, Llama 2 by its checkpoints', Mixtral 46.7 B by its paper and 141 B by its
# announcement, Qwen2.5, Qwen3 and Mistral Nemo by the model cards, DeepSeek by the papers, gpt-oss by its model card's
# table, Kimi K2 by its checkpoint's count (its paper rounds to 1.04 T), GLM-4.5-Air by its model card (which leaves out
# the layer that predicts a second token), Gemma 3 by its report's table (1,416 M and 25,600 M, without the encoder),
# Kimi-Linear by total_parameters of its safetensors index (its card says 48 B, which leaves out the embeddings),
# Nemotron-H-8B by its checkpoint's count, 8.1 B, Code Llama 34B and QwQ 32B by theirs, and GLM-4.6 by the documentation
# of its class in transformers; Code Llama 7B, Gemma 1 and 2, Granite, Mistral 7B, Yi and Seed-OSS by their checkpoints,
# Gemma 3 4B and 12B by the report's table, Mistral Small by its checkpoint's 24.011 B less the encoder that
# test_vision.py counts, Qwen1.5-MoE, Qwen3-Coder, Qwen3.5 397B, MiniMax (230 B), DeepSeek-V3.2 (as V3), GLM-5 and
# Kimi's by their cards, and Hy3, Qwen3.5 9B and Qwen3.6 as test_later_families.py counts them to the last weight.
PUBLISHED = {
    "codellama-34b": 33.74e9,
    "deepseek-v2-lite": 15.7e9,
    "deepseek-v3": 671e9,
    "gemma-3-27b": 27.016e9,
    "glm-4.5-air": 106e9,
    "glm-4.6": 355e9,
    "gpt-oss-120b": 116.83e9,
    "gpt-oss-20b": 20.91e9,
    "kimi-k2": 1026.408e9,
    "kimi-linear-48b-a3b": 49.122681728e9,
    "llama-2-70b": 68.98e9,
    "llama-2-7b": 6.738e9,
    "llama-3.1-405b": 405.85e9,
    "mistral-nemo-12b": 12.2e9,
    "mixtral-8x22b": 141e9,
    "nemotron-h-8b": 8.1e9,
    "qwen2.5-72b": 72.7e9,
    "qwen2.5-7b": 7.62e9,
    "qwen3-14b": 14.8e9,
    "qwen3-235b-a22b": 235e9,
    "qwen3-8b": 8.2e9,
    "qwen3-next-80b-a3b": 80e9,
    "qwq-32b": 32.8e9,
    "codellama-7b": 6.738e9,
    "deepseek-v3.2": 671e9,
    "gemma-2-27b": 27.2e9,
    "gemma-2-2b": 2.61e9,
    "gemma-2-9b": 9.24e9,
    "gemma-3-12b": 11.771e9,
    "gemma-3-4b": 3.884e9,
    "gemma-7b": 8.54e9,
    "glm-5": 744e9,
    "granite-3.3-8b": 8.17e9,
    "granite-4.0-micro": 3.40e9,
    "hy3": 295.03352832e9,
    "kimi-dev-72b": 72.7e9,
    "kimi-k2-thinking": 1026.408e9,
    "kimi-k2.5": 1026.408e9,
    "llama-3-70b": 70.6e9,
    "minimax-m2.5": 230e9,
    "minimax-m2.7": 230e9,
    "mistral-7b-v0.1": 7.24e9,
    "mistral-small-3.1-24b": 23.572e9,
    "qwen1.5-moe-a2.7b": 14.3e9,
    "qwen3-235b-a22b-2507": 235e9,
    "qwen3-30b-a3b-2507": 30.5e9,
    "qwen3-coder-480b-a35b": 480e9,
    "qwen3.5-397b-a17b": 397e9,
    "qwen3.5-9b": 8.953803264e9,
    "qwen3.6-35b-a3b": 34.660610688e9,
    "seed-oss-36b": 36.15e9,
    "yi-34b": 34.4e9,
    "llama-3-8b": 8.03e9,
    "llama-3.1-70b": 70.6e9,
    "llama-3.1-8b": 8.03e9,
    "llama-3.3-70b": 70.6e9,
    "mixtral-8x7b": 46.7e9,
    "qwen3-30b-a3b": 30.5e9,
    "qwen3-32b": 32.8e9,
}
# Parameters that a token goes through, from the same places.
ACTIVE = {
    "mixtral-8x7b": 12.9e9,
    "qwen1.5-moe-a2.7b": 2.7e9,
    "qwen3-30b-a3b": 3.3e9,
    "qwen3-30b-a3b-2507": 3.3e9,
}
# Published as a whole billion, rounded.
ACTIVE_ROUNDED = {"hy3": 21e9}
# Published as whole billions, some without an embedding or an output projection.
ACTIVE_IN_BILLIONS = {
    "deepseek-v2-lite": 2.4,
    "deepseek-v3": 37,
    "deepseek-v3.2": 37,
    "glm-4.5-air": 12,
    "glm-4.6": 32,
    "glm-5": 40,
    "gpt-oss-120b": 5.1,
    "gpt-oss-20b": 3.6,
    "kimi-k2": 32,
    "kimi-k2-thinking": 32,
    "kimi-k2.5": 32,
    "kimi-linear-48b-a3b": 3,
    "minimax-m2.5": 10,
    "minimax-m2.7": 10,
    "mixtral-8x22b": 39,
    "qwen3-235b-a22b": 22,
    "qwen3-235b-a22b-2507": 22,
    "qwen3-coder-480b-a35b": 35,
    "qwen3.5-397b-a17b": 17,
    "qwen3.6-35b-a3b": 3,
    "qwen3-next-80b-a3b": 3,
}


def test_every_model_has_a_published_count_to_check_against() -> None:
    assert set(model_names()) == set(PUBLISHED)


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_match_the_published_count(name: str) -> None:
    # The publishers round to three digits: half a unit of the third is at most 0.5 % of the number; GLM-4.5-Air's two
    # digits after the hundred are cut, not rounded, and GLM-4.6's 355 lie between 352.8 and 356.8, without and with the
    # layer that predicts a second token; MiniMax's 230 are tens of billions.
    rough = {"glm-4.5-air", "glm-4.6", "minimax-m2.5", "minimax-m2.7"}
    tolerance = 0.01 if name in rough else 0.005
    assert load_model(name).parameters == pytest.approx(PUBLISHED[name], rel=tolerance)
    assert load_model(name).name == name


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_token_goes_through_the_published_number_of_parameters(name: str) -> None:
    model = load_model(name)
    if name in ACTIVE:
        # Published with two digits; 3.35 B are cut to 3.3, not rounded.
        assert model.active_parameters == pytest.approx(ACTIVE[name], abs=0.06e9)
    elif name in ACTIVE_ROUNDED:
        assert model.active_parameters == pytest.approx(ACTIVE_ROUNDED[name], abs=0.5e9)
    elif name in ACTIVE_IN_BILLIONS:
        # Up to a billion for what is cut, and both ends of the model.
        published = ACTIVE_IN_BILLIONS[name] * 1e9
        assert -0.05e9 <= model.active_parameters - published <= 1e9 + 2 * model.embedding_parameters
    else:
        assert model.active_parameters == model.parameters


def test_a_layer_with_experts_is_counted_by_hand() -> None:
    experts = Experts(count=6, per_token=2, intermediate_size=3, shared=1, dense_layers=1)
    model = Model("tiny", "gqa", 3, 8, 16, 4, 2, 4, 32, False, 128, "by hand", experts=experts)
    assert (model.dense_layers, model.expert_layers, model.mlp_columns) == (1, 2, (16, 3))
    attention = 8 * (16 + 8 + 8) + 16 * 8
    always = 3 * (attention + 2 * 8) + 3 * 8 * 16 + 2 * 6 * 8 + 2 * 32 * 8 + 8
    assert model.parameters == always + 2 * (6 + 1) * 3 * 8 * 3
    assert model.active_parameters == always + 2 * (2 + 1) * 3 * 8 * 3
    assert model.splits_over(1)
    assert not model.splits_over(2)  # the experts have 3 columns


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("deepseek-v3", 671026419200),
        ("kimi-k2", 1026408232448),
        ("kimi-linear-48b-a3b", 49122681728),
    ],
)
def test_latent_attention_is_counted_to_the_last_weight(name: str, count: int) -> None:
    # The checkpoints' counts without the layer that predicts a second token and what quantization adds. They include
    # one bias an expert, which shifts the router's choice and is not counted here.
    model = load_model(name)
    assert model.experts is not None
    assert model.parameters + model.expert_layers * model.experts.count == count


def test_states_are_counted_to_the_last_weight() -> None:
    # Elements of the checkpoint of nvidia/Nemotron-H-8B-Base-8K.
    model = load_model("nemotron-h-8b")
    assert model.parameters == 8100852736
    assert [len(layers) for layers in (model.full_layers, model.mlp_layers)] == [4, 24]
    assert (model.linear_layers, model.dense_layers, model.expert_layers) == (24, 24, 0)


def test_the_smallest_model_is_counted_to_the_last_weight() -> None:
    # The safetensors index of meta-llama/Llama-3.1-8B states total_size 16060522496 bytes at 2 bytes a weight.
    assert 2 * load_model("llama-3.1-8b").parameters == 16060522496


@pytest.mark.parametrize("name", gpu_names())
def test_gpus_state_dense_rates_and_the_source_of_each_figure(name: str) -> None:
    gpu = load_gpu(name)
    assert gpu.name == name
    assert set(gpu.sources) == set(FIGURES)
    assert load_gpu(name.upper()) == gpu
    rates = gpu.dense_flops
    assert rates["float16"] == rates["bfloat16"]
    # Matrix units double their rate with each halving of the bits, which tells a dense figure from a sparse one; the
    # data sheets' own rounding is 1.3 % at most (L40S: 362.05 and 733).
    # On GeForce 16 and 8 bits accumulate in 32 bits at half the rate, 4 bits and integers do not.
    slow = 2 if name.startswith("rtx") and name != "rtx-pro-6000" else 1
    for dtype, times in (("fp8", 2), ("fp4", 4 * slow), ("int8", 2 * slow)):
        assert dtype not in rates or rates[dtype] == pytest.approx(times * rates["bfloat16"], rel=0.013)
    assert 20 * 2**30 < gpu.memory < 200 * 2**30
    # Every one of them reaches its dense rate at 75 to 550 FLOPs a byte: a slip of a prefix is a factor of 1,000.
    assert 75 < rates["bfloat16"] / gpu.memory_bandwidth < 550
    assert gpu.link_bandwidth < gpu.memory_bandwidth


def test_gpus_before_hopper_and_ada_have_no_fp8() -> None:
    without = {name for name in gpu_names() if "fp8" not in load_gpu(name).dense_flops}
    assert without == {"a10", "a100-80gb-pcie", "a100-80gb-sxm", "cpu-core", "rtx-3090"}
    assert {name for name in gpu_names() if "fp4" in load_gpu(name).dense_flops} == {
        "b200",
        "gb200",
        "rtx-5090",
        "rtx-pro-6000",
    }


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("rtx4090", "rtx-4090"),
        ("rtxpro6000", "rtx-pro-6000"),
        ("h100", "h100-sxm"),
        ("NVIDIA A100-SXM4-80GB", "a100-80gb-sxm"),
    ],
)
def test_gpus_are_found_by_alias(alias: str, name: str) -> None:
    assert load_gpu(alias) == load_gpu(name)


def test_no_two_entries_share_a_name() -> None:
    for kind in ("gpus", "models"):
        paths = [data_path(kind, file) for file in data_names(kind, (".yaml",))]
        sections = [documents.load(path).data for path in paths]
        names = [str(name).lower() for data in sections for name in {data["name"], *data["aliases"]}]
        assert len(names) == len(set(names))


def test_the_hopper_gpus_differ_in_memory_only() -> None:
    h100, h200 = load_gpu("h100-sxm"), load_gpu("h200")
    assert (h100.memory_bandwidth, h200.memory_bandwidth) == (3.35e12, 4.8e12)
    assert h100.dense_flops == h200.dense_flops
    # The driver reports less than the data sheets' 80 * 2**30 and 141e9 bytes.
    assert h100.memory / 2**30 == pytest.approx(79.19)
    assert h200.memory / 2**30 == pytest.approx(139.80)


@pytest.mark.parametrize(
    "name", ["meta-llama/Llama-3.1-8B-Instruct", "META-LLAMA/llama-3.1-8b", "Llama-3.1-8B"]
)
def test_models_are_found_by_alias_whatever_the_case(name: str) -> None:
    assert load_model(name) == load_model("llama-3.1-8b")


def test_unknown_names_are_refused_with_the_nearest_known_one() -> None:
    with pytest.raises(BadInput) as refusal:
        load_model("Qwen/Qwen3-32")
    assert str(refusal.value) == (
        f"model: 'Qwen/Qwen3-32' is not in the catalog, expected one of {', '.join(model_names())},"
        " did you mean 'qwen3-32b'?"
    )
    with pytest.raises(BadInput) as refusal:
        load_gpu("tpu-v5e")
    assert (
        str(refusal.value)
        == f"GPU: 'tpu-v5e' is not in the catalog, expected one of {', '.join(gpu_names())}"
    )


def edited(tmp_path: Path, kind: str, name: str, old: str, new: str) -> Path:
    text = data_path(kind, name).read_text(encoding="utf-8")
    assert old in text
    path = tmp_path / name
    path.write_text(text.replace(old, new), encoding="utf-8")
    return path


MODEL_FAULTS = [
    (
        "attention: gqa",
        "attention: alibi",
        "9:12: attention: attention kind 'alibi' is not counted yet, expected gqa or mla or sliding-window or linear",
    ),
    (
        "layers: 32 ",
        "layers: 32.0 ",
        "10:9: layers: 32.0 is no whole number, expected a whole number, at least 1",
    ),
    ("kv_heads: 8 ", "kv_heads: 0 ", "14:11: kv_heads: 0 is too small, expected a whole number, at least 1"),
    (
        "tied_embeddings: false",
        "tied_embeddings: no",
        "17:18: tied_embeddings: 'no' is neither true nor false",
    ),
    ("head_dim: 128", "# head_dim: 128", "1:1: head_dim: is missing"),
]


@pytest.mark.parametrize(("old", "new", "message"), MODEL_FAULTS)
def test_model_files_are_checked(tmp_path: Path, old: str, new: str, message: str) -> None:
    text = data_path("models", "llama-3.1-8b.yaml").read_text(encoding="utf-8")
    # Without the leading comment, so that lines count from the first key.
    text = text[text.index("name:") :]
    assert old in text
    path = tmp_path / "model.yaml"
    path.write_text(text.replace(old, new), encoding="utf-8")
    with pytest.raises(BadInput) as refusal:
        read_model(path)
    assert str(refusal.value).startswith(f"{path}:{message}")
    assert len(refusal.value.faults) == 1


SHAPE_FAULTS = [
    ("attention: gqa", "attention: mla", ["mla needs the key latent"]),
    ("attention: gqa", "attention: gqa\nwindow: 128", ["does not go with attention gqa"]),
    ("attention: gqa", "attention: gqa\nfull_every: 2", ["needs window or linear"]),
    (
        "attention: gqa",
        "attention: sliding-window\nwindow: 128\nfull_every: 2\nfull_layers: [1, 32]",
        ["stands beside full_every", "there is no layer 32"],
    ),
    (
        "attention: gqa",
        "attention: gqa\nkv_shared_layers: 32",
        ["32 is more than there are layers beside one with a KV cache"],
    ),
]


@pytest.mark.parametrize(("old", "new", "faults"), SHAPE_FAULTS)
def test_attention_and_its_shape_go_together(tmp_path: Path, old: str, new: str, faults: list[str]) -> None:
    with pytest.raises(BadInput) as refusal:
        read_model(edited(tmp_path, "models", "llama-3.1-8b.yaml", old, new))
    assert [fault.what for fault in refusal.value.faults if isinstance(fault, Fault)] == faults


@pytest.mark.parametrize("name", ["deepseek-v3", "qwen3-next-80b-a3b", "nemotron-h-8b"])
def test_kinds_that_step_costs_do_not_price_are_refused_by_name(name: str) -> None:
    model = load_model(name)
    with pytest.raises(BadInput, match=f"model {name}: attention '{model.attention}' is not covered"):
        model.kv_heads_of_rank(1)


PATTERN_FAULTS = [
    ("pattern: M-M", "pattern: M-", ["has 51 symbols for 52 layers"]),
    ("pattern: M-M", "pattern: MEM", ["'E' is no kind of layer"]),
    ("pattern: M-M", "full_every: 4\npattern: M-M", ["stands beside pattern"]),
    ("attention: linear", "attention: gqa", ["does not go with attention gqa"]),
]


@pytest.mark.parametrize(("old", "new", "faults"), PATTERN_FAULTS)
def test_a_pattern_is_one_symbol_a_layer(tmp_path: Path, old: str, new: str, faults: list[str]) -> None:
    with pytest.raises(BadInput) as refusal:
        read_model(edited(tmp_path, "models", "nemotron-h-8b.yaml", old, new))
    assert [fault.what for fault in refusal.value.faults if isinstance(fault, Fault)] == faults


def test_a_pattern_needs_states(tmp_path: Path) -> None:
    path = edited(tmp_path, "models", "qwen3-8b.yaml", "layers: 36", "pattern: '*-'\nlayers: 2")
    with pytest.raises(BadInput, match="pattern: needs linear"):
        read_model(path)


def test_layers_are_grouped_by_what_they_see() -> None:
    full, windows = load_model("gemma-3-27b").layer_groups
    assert full.layers == (5, 11, 17, 23, 29, 35, 41, 47, 53, 59)
    assert (full.attention.kind, windows.attention.kind, len(windows.layers)) == ("full", "window", 52)
    sharing = replace(load_model("gemma-3-27b"), kv_shared_layers=20)
    assert [len(group.layers) for group in sharing.layer_groups] == [7, 35]
    (latent,) = load_model("deepseek-r1").layer_groups
    assert (latent.attention.kind, len(latent.layers)) == ("latent", 61)


def test_an_unknown_key_names_the_known_ones(tmp_path: Path) -> None:
    path = edited(tmp_path, "models", "qwen3-32b.yaml", "qk_norm: true", "qk_norms: true")
    with pytest.raises(BadInput) as refusal:
        read_model(path)
    (fault,) = refusal.value.faults
    assert str(fault).startswith(
        f"{path}:16:1: qk_norms: unknown key, expected one of name, aliases, attention, "
    )
    assert str(fault).endswith(", did you mean 'qk_norm'?")


def test_experts_that_a_model_cannot_have_are_refused(tmp_path: Path) -> None:
    path = edited(tmp_path, "models", "mixtral-8x7b.yaml", "per_token: 2 ", "per_token: 9 ")
    text = path.read_text(encoding="utf-8")
    path.write_text(text + "  dense_layers: 32\n  shared: -1\n", encoding="utf-8")
    with pytest.raises(BadInput) as refusal:
        read_model(path)
    assert "experts.shared: -1 is too small" in str(refusal.value)
    path.write_text(text + "  dense_layers: 32\n", encoding="utf-8")
    with pytest.raises(BadInput) as refusal:
        read_model(path)
    assert [fault.what for fault in refusal.value.faults if isinstance(fault, Fault)] == [
        "9 is more than there are experts",
        "32 is more than there are layers beside one with experts",
    ]


def test_a_figure_without_its_source_is_refused(tmp_path: Path) -> None:
    path = edited(tmp_path, "gpus", "h200.yaml", "  link_bandwidth: NVIDIA", "  # link_bandwidth: NVIDIA")
    with pytest.raises(BadInput) as refusal:
        read_gpu(path)
    assert "sources: no source for link_bandwidth, expected one for each figure" in str(refusal.value)


def test_a_gpu_needs_units_and_known_dtypes(tmp_path: Path) -> None:
    path = edited(tmp_path, "gpus", "h200.yaml", "  fp8: 1978.9TFLOP/s", "  fp9: 1978.9")
    with pytest.raises(BadInput) as refusal:
        read_gpu(path)
    known = ", ".join(COMPUTE_DTYPES)
    assert sorted(str(fault) for fault in refusal.value.faults) == [
        f"{path}:9:3: dense_flops.fp9: 'fp9' is not known, expected one of {known}, did you mean 'fp8'?",
        f"{path}:9:8: dense_flops.fp9: 1978.9 has no unit, expected a compute rate such as '989.4TFLOP/s'",
    ]


def test_shipped_files_are_listed_by_kind() -> None:
    assert "h200.yaml" in data_names("gpus", (".yaml",))
    assert data_names("no such kind", (".yaml",)) == ()
