from dataclasses import replace
from pathlib import Path

import pytest

from capsim import documents
from capsim.catalog import gpu_names, load_gpu, load_model, model_names
from capsim.catalog.entry import entry_text, gpu_text
from capsim.catalog.loader import read_gpu, read_model


@pytest.mark.parametrize("name", model_names())
def test_an_entry_is_read_as_the_model_it_was_written_from(tmp_path: Path, name: str) -> None:
    model = replace(load_model(name), source='config.json: "of a model" # and a comment\n')
    path = tmp_path / "model.yaml"
    path.write_text(entry_text(model, ["Another/Name", "1.5"]), encoding="utf-8")
    assert read_model(path) == model
    assert documents.load(path).data["aliases"] == ["Another/Name", "1.5"]


@pytest.mark.parametrize("name", gpu_names())
def test_an_entry_is_read_as_the_gpu_it_was_written_from(tmp_path: Path, name: str) -> None:
    known = load_gpu(name)
    gpu = replace(known, sources={figure: f'a "sheet": {figure} # 1\n' for figure in known.sources})
    path = tmp_path / "gpu.yaml"
    path.write_text(gpu_text(gpu, ["Another/Name"]), encoding="utf-8")
    assert read_gpu(path) == gpu
    assert documents.load(path).data["aliases"] == ["Another/Name"]


def test_a_gpus_figures_keep_all_their_digits(tmp_path: Path) -> None:
    odd = replace(
        load_gpu("mi300x"),
        memory=85_017_600_001,
        memory_bandwidth=3.3500000001e12,
        dense_flops={"bfloat16": 989.412345678e12},
        link_per_peer=True,
    )
    path = tmp_path / "gpu.yaml"
    path.write_text(gpu_text(odd), encoding="utf-8")
    assert read_gpu(path) == odd
