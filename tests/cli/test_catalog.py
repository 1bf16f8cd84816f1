from __future__ import annotations

from capsim.catalog import gpu_names, model_names
from tests.cli.conftest import Capsim


def test_catalog_lists_what_scenarios_can_name(capsim: Capsim) -> None:
    printed = capsim("catalog", "--json")
    assert printed.code == 0
    assert {model["name"] for model in printed.json["models"]} == set(model_names())
    assert {gpu["name"] for gpu in printed.json["gpus"]} == set(gpu_names())
    assert all(profile["licence"] and profile["attribution"] for profile in printed.json["profiles"])
    factors = {factor["name"]: factor for factor in printed.json["roofline"]}
    spread = factors["gemm_compute"]["profiles"]
    assert spread["least"] <= spread["median"] <= spread["most"]
    assert all(factor["source"] for factor in factors.values())


def test_catalog_as_text(capsim: Capsim) -> None:
    text = capsim("catalog").out
    assert all(len(line) <= 100 for line in text.splitlines())
    for word in ("llama-3.1-8b", "h200", "gemm_compute", "profiles show"):
        assert word in text
