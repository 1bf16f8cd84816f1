from pathlib import Path

import pytest

from capsim.catalog import gpu_names, load_gpu, load_model, model_names
from capsim.catalog.data import data_path
from capsim.catalog.entry import entry_text
from capsim.catalog.figures import figures


@pytest.mark.parametrize("name", model_names())
def test_each_figure_of_a_shipped_model_names_a_key_or_a_class(name: str) -> None:
    known = figures(data_path("models", f"{name}.yaml"))
    whole = load_model(name).source
    assert len(known) >= 10
    assert all(figure.source and figure.source != whole for figure in known)


@pytest.mark.parametrize("name", gpu_names())
def test_each_figure_of_a_shipped_gpu_has_its_source(name: str) -> None:
    known = {figure.name: figure for figure in figures(data_path("gpus", f"{name}.yaml"))}
    sources = load_gpu(name).sources
    assert set(sources) <= {figure.split(".")[0] for figure in known}
    for figure in known.values():
        assert figure.source == sources.get(figure.name.split(".")[0], figure.source)


def test_values_are_as_the_file_has_them() -> None:
    known = {figure.name: figure[1:] for figure in figures(data_path("models", "kimi-linear-48b-a3b.yaml"))}
    assert known["layers"] == ("27", "num_hidden_layers")
    assert known["tied_embeddings"] == ("false", "tie_word_embeddings")
    assert known["full_layers"][0] == "3, 7, 11, 15, 19, 23, 26"
    assert known["linear.kernel"] == ("4", "linear_attn_config.short_conv_kernel_size")
    assert not {"name", "aliases", "source"} & set(known)


def test_what_no_comment_says_comes_from_the_source_of_the_entry(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(entry_text(load_model("gemma-3-4b")), encoding="utf-8")
    assert {figure.source for figure in figures(path)} == {load_model("gemma-3-4b").source}
