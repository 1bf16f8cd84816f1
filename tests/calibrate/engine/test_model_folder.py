from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from calibrate.engine.model_folder import config_of, model_of
from capsim.catalog import load_model, read_config
from capsim.errors import BadInput


@pytest.mark.parametrize("name", ["llama-3.1-8b", "qwen2.5-7b", "qwen3-32b"])
def test_a_model_of_the_catalog_is_read_back_from_the_folder(name: str, tmp_path: Path) -> None:
    model, folder = model_of(name, tmp_path / "model")
    read = read_config(folder / "config.json", name)
    assert replace(read, source=model.source) == model


def test_a_folder_with_a_configuration_is_taken_as_it_is(tmp_path: Path) -> None:
    _, written = model_of("llama-3.1-8b", tmp_path / "mine")
    model, folder = model_of(str(written), tmp_path / "other")
    assert (model.name, folder) == ("mine", written)
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("name", ["mixtral-8x7b", "deepseek-v3", "gpt-oss-20b"])
def test_a_model_of_another_kind_needs_its_own_configuration(name: str) -> None:
    with pytest.raises(BadInput, match=r"expected the folder of its published config\.json"):
        config_of(load_model(name))
