from dataclasses import replace
from pathlib import Path

import pytest

from capsim import documents
from capsim.catalog import load_model, model_names
from capsim.catalog.entry import entry_text
from capsim.catalog.loader import read_model


@pytest.mark.parametrize("name", model_names())
def test_an_entry_is_read_as_the_model_it_was_written_from(tmp_path: Path, name: str) -> None:
    model = replace(load_model(name), source='config.json: "of a model" # and a comment\n')
    path = tmp_path / "model.yaml"
    path.write_text(entry_text(model, ["Another/Name", "1.5"]), encoding="utf-8")
    assert read_model(path) == model
    assert documents.load(path).data["aliases"] == ["Another/Name", "1.5"]
