from __future__ import annotations

from pathlib import Path

import pytest

from capsim.catalog import gpu_names, load_gpu, load_model, model_names
from capsim.catalog.data import data_names, data_path
from capsim.catalog.loader import FIGURES, read_gpu, read_model
from capsim.errors import BadInput

# Total parameters as the publishers state them: Llama 3.1 8B 8.03 B and Llama 3.3 70B 70.6 B by the checkpoints'
# own counts on Hugging Face, Qwen3-32B 32.8 B by its model card.
PUBLISHED = {"llama-3.1-8b": 8.03e9, "llama-3.3-70b": 70.6e9, "qwen3-32b": 32.8e9}


def test_every_model_has_a_published_count_to_check_against() -> None:
    assert set(model_names()) == set(PUBLISHED)


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_match_the_published_count(name: str) -> None:
    # The publishers round to three digits: half a unit of the third is at most 0.5 % of the number.
    assert load_model(name).parameters == pytest.approx(PUBLISHED[name], rel=0.005)
    assert load_model(name).name == name


def test_the_smallest_model_is_counted_to_the_last_weight() -> None:
    # The safetensors index of meta-llama/Llama-3.1-8B states total_size 16060522496 bytes at 2 bytes a weight.
    assert 2 * load_model("llama-3.1-8b").parameters == 16060522496


@pytest.mark.parametrize("name", gpu_names())
def test_gpus_state_dense_rates_and_the_source_of_each_figure(name: str) -> None:
    gpu = load_gpu(name)
    assert gpu.name == name
    assert set(gpu.sources) == set(FIGURES)
    # Hopper's FP8 rate is twice its BF16 rate, both dense; 0.1 TFLOP/s is the white paper's rounding.
    assert gpu.dense_flops["fp8"] == pytest.approx(2 * gpu.dense_flops["bfloat16"], abs=0.1e12)
    assert gpu.dense_flops["bfloat16"] == 989.4e12
    assert gpu.link_bandwidth == 450e9


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
        "model: 'Qwen/Qwen3-32' is not in the catalog, expected one of llama-3.1-8b, llama-3.3-70b, qwen3-32b,"
        " did you mean 'qwen3-32b'?"
    )
    with pytest.raises(BadInput) as refusal:
        load_gpu("tpu-v5e")
    assert str(refusal.value) == "GPU: 'tpu-v5e' is not in the catalog, expected one of h100-sxm, h200"


def edited(tmp_path: Path, kind: str, name: str, old: str, new: str) -> Path:
    text = data_path(kind, name).read_text(encoding="utf-8")
    assert old in text
    path = tmp_path / name
    path.write_text(text.replace(old, new), encoding="utf-8")
    return path


MODEL_FAULTS = [
    (
        "attention: gqa",
        "attention: mla",
        "8:12: attention: attention kind 'mla' is not counted yet, expected gqa",
    ),
    (
        "layers: 32 ",
        "layers: 32.0 ",
        "9:9: layers: 32.0 is no whole number, expected a whole number, at least 1",
    ),
    ("kv_heads: 8 ", "kv_heads: 0 ", "13:11: kv_heads: 0 is too small, expected a whole number, at least 1"),
    (
        "tied_embeddings: false",
        "tied_embeddings: no",
        "16:18: tied_embeddings: 'no' is neither true nor false",
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


def test_an_unknown_key_names_the_known_ones(tmp_path: Path) -> None:
    path = edited(tmp_path, "models", "qwen3-32b.yaml", "qk_norm: true", "qk_norms: true")
    with pytest.raises(BadInput) as refusal:
        read_model(path)
    (fault,) = refusal.value.faults
    assert str(fault).startswith(
        f"{path}:16:1: qk_norms: unknown key, expected one of name, aliases, attention, "
    )
    assert str(fault).endswith(", did you mean 'qk_norm'?")


def test_a_figure_without_its_source_is_refused(tmp_path: Path) -> None:
    path = edited(tmp_path, "gpus", "h200.yaml", "  link_bandwidth: NVIDIA", "  # link_bandwidth: NVIDIA")
    with pytest.raises(BadInput) as refusal:
        read_gpu(path)
    assert "sources: no source for link_bandwidth, expected one for each figure" in str(refusal.value)


def test_a_gpu_needs_units_and_known_dtypes(tmp_path: Path) -> None:
    path = edited(tmp_path, "gpus", "h200.yaml", "  fp8: 1978.9TFLOP/s", "  fp9: 1978.9")
    with pytest.raises(BadInput) as refusal:
        read_gpu(path)
    assert sorted(str(fault) for fault in refusal.value.faults) == [
        f"{path}:9:3: dense_flops.fp9: 'fp9' is not known, expected one of bfloat16, float16, fp8, did you mean 'fp8'?",
        f"{path}:9:8: dense_flops.fp9: 1978.9 has no unit, expected a compute rate such as '989.4TFLOP/s'",
    ]


def test_shipped_files_are_listed_by_kind() -> None:
    assert "h200.yaml" in data_names("gpus", (".yaml",))
    assert data_names("no such kind", (".yaml",)) == ()
