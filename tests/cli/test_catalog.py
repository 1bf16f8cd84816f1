from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace
from pathlib import Path

import click
import pytest

from capsim.catalog import gpu_names, load_model, model_names
from capsim.cli.catalog import catalog
from capsim.memory import KvLayout
from tests.catalog.test_hugging_face import CONFIGS
from tests.cli.conftest import Capsim


def test_catalog_lists_what_scenarios_can_name(capsim: Capsim) -> None:
    printed = capsim("catalog", "--json")
    assert printed.code == 0
    assert {model["name"] for model in printed.json["models"]} == set(model_names())
    assert {gpu["name"] for gpu in printed.json["gpus"]} == set(gpu_names())
    assert all(profile["licence"] and profile["attribution"] for profile in printed.json["profiles"])
    paths = [profile["name"] for profile in printed.json["profiles"]]
    assert "h200-llama-3.1-8b-bf16-tp1" in paths
    text = capsim("catalog").out
    assert all(path in text for path in paths)
    factors = {factor["name"]: factor for factor in printed.json["roofline"]}
    spread = factors["gemm_compute"]["profiles"]
    assert spread["least"] <= spread["median"] <= spread["most"]
    assert all(factor["source"] for factor in factors.values())


def test_catalog_as_text(capsim: Capsim) -> None:
    text = capsim("catalog", "--on", "2026-11-30").out
    assert capsim("catalog", "list", "--on", "2026-11-30").out == text
    assert all(len(line) <= 100 for line in text.splitlines())
    for word in ("llama-3.1-8b", "h200", "gemm_compute", "profiles show"):
        assert word in text


def config(folder: Path, name: str = "gemma-3-27b", **changes: object) -> Path:
    """A published config in a folder of its own."""
    path = folder / f"my-{name}" / "config.json"
    path.parent.mkdir()
    path.write_text(json.dumps({**CONFIGS[name], **changes}, indent=1), encoding="utf-8")
    return path


def test_a_config_becomes_an_entry_that_is_found_by_its_path(capsim: Capsim, tmp_path: Path) -> None:
    printed = capsim("catalog", "add-model", config(tmp_path))
    assert printed.code == 0
    assert all(len(line) <= 100 for line in printed.out.splitlines() if str(tmp_path) not in line)
    assert "52 with a window of 1,024 tokens" in " ".join(printed.out.split())
    assert "the largest image takes 256 tokens" in printed.out
    assert "a scenario names it by its path:\n  model: my-gemma-3-27b.yaml\n" in printed.out
    model = load_model("my-gemma-3-27b.yaml", tmp_path)
    assert model == load_model("my-gemma-3-27b.yaml")  # the command line runs in that folder
    assert replace(model, name="gemma-3-27b", source="") == replace(load_model("gemma-3-27b"), source="")


@pytest.mark.parametrize("name", CONFIGS)
def test_what_was_understood_says_what_a_request_holds(capsim: Capsim, tmp_path: Path, name: str) -> None:
    result = capsim("catalog", "add-model", config(tmp_path, name), "--alias", "a/b", "--json").json
    model = load_model(name)
    layout = KvLayout.of(model, 1, "bfloat16", 16)
    assert result["model"]["parameters"] == model.parameters
    assert result["model"]["aliases"] == ["a/b"]
    assert result["kv"]["bytes_per_token"] == (layout.bytes_per_token if layout.plain else None)
    *_, longest = result["kv"]["requests"]
    assert longest["tokens"] == model.max_position_embeddings
    assert longest["bytes"] == layout.blocks(longest["tokens"]) * layout.bytes_per_block
    assert sum(group["layers"] for group in result["layers"]) == model.layers


def test_the_words_for_each_kind_of_layer(capsim: Capsim, tmp_path: Path) -> None:
    said = {
        "deepseek-v3": ("61 with a latent of 512 + 64 elements", "70,272 bytes a token"),
        "qwen3-next-80b-a3b": ("36 with a state of constant size", "a token goes through 3.87 billion"),
        "llama-3.1-8b": ("32 that see everything (8 KV heads of 128 for 32 query heads)", "131,072 bytes"),
    }
    for name, phrases in said.items():
        printed = " ".join(capsim("catalog", "add-model", config(tmp_path, name)).out.split())
        assert [phrase for phrase in phrases if phrase not in printed] == []


def test_an_entry_has_its_name_and_its_file(capsim: Capsim, tmp_path: Path) -> None:
    source = config(tmp_path)
    (tmp_path / "models").mkdir()
    assert capsim("catalog", "add-model", source, "--name", "me/mine").code == 0
    assert load_model("mine.yaml", tmp_path).name == "me/mine"
    capsim("catalog", "add-model", source, "--name", "mine", "--out", "models/other.yml")
    assert load_model("models/other.yml", tmp_path).name == "mine"


def test_a_file_that_is_there_is_kept(capsim: Capsim, tmp_path: Path) -> None:
    source, kept = config(tmp_path), tmp_path / "kept.yaml"
    kept.write_text("mine", encoding="utf-8")
    for target in (kept, tmp_path / "no folder" / "new.yaml"):
        printed = capsim("catalog", "add-model", source, "--out", target)
        assert printed.code == 2
        assert f"--out: cannot write {target}: " in printed.err
    assert kept.read_text(encoding="utf-8") == "mine"


def test_names_of_shipped_models_are_refused(capsim: Capsim, tmp_path: Path) -> None:
    names = ("--name", "Gemma-3-27B", "--alias", "meta-llama/Llama-3.1-8B", "--alias", "x.yaml")
    printed = capsim("catalog", "add-model", config(tmp_path), *names)
    assert printed.code == 2
    assert printed.err.splitlines()[1:] == [
        "--name: 'Gemma-3-27B' is in the catalog, as gemma-3-27b, expected another name",
        "--alias: 'meta-llama/Llama-3.1-8B' is in the catalog, as llama-3.1-8b, expected another name",
        "--alias: 'x.yaml' is no name, expected one that does not end in .yaml",
    ]


def test_what_is_not_understood_is_refused_with_its_place(capsim: Capsim, tmp_path: Path) -> None:
    source = config(tmp_path, "llama-3.1-8b", attention_chunk_size=8192)
    printed = capsim("catalog", "add-model", source, "--json")
    assert printed.code == 2
    assert f"{source}:13:2: attention_chunk_size: is not understood" in printed.err
    assert printed.json["faults"][0]["line"] == 13
    assert list(tmp_path.glob("*.yaml")) == []


def test_an_encoder_that_is_not_counted_is_said(capsim: Capsim, tmp_path: Path) -> None:
    printed = capsim("catalog", "add-model", config(tmp_path, model_type="another"))
    assert "its vision encoder is not counted" in " ".join(printed.out.split())


@pytest.mark.parametrize("name", sorted(catalog.commands))
def test_its_commands_have_help_with_an_example_that_parses(name: str) -> None:
    command = catalog.commands[name]
    assert command.help is not None
    examples = re.findall(rf"^ *capsim catalog {name} (.*)$", command.help, flags=re.MULTILINE)
    assert examples
    for example in examples:
        command.make_context(name, shlex.split(example))  # raises UsageError if an option is not known
    assert all(parameter.help for parameter in command.params if isinstance(parameter, click.Option))
