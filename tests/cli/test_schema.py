from __future__ import annotations

import json
from pathlib import Path

from jsonschema import Draft202012Validator

from capsim.scenario.schema import scenario_schema
from tests.cli.conftest import Capsim


def test_the_schema_is_printed_or_written(capsim: Capsim, tmp_path: Path) -> None:
    printed = capsim("schema")
    assert (printed.code, printed.err) == (0, "")
    assert printed.json == scenario_schema()
    Draft202012Validator.check_schema(printed.json)
    printed = capsim("schema", "--out", "s.json")
    assert printed.out == "written: s.json\n"
    assert json.loads((tmp_path / "s.json").read_text(encoding="utf-8")) == scenario_schema()


def test_it_gives_way_to_a_newer_one(capsim: Capsim, tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text("old", encoding="utf-8")
    assert capsim("schema", "--out", "s.json", "--json").json == {"written": ["s.json"]}
    assert json.loads((tmp_path / "s.json").read_text(encoding="utf-8")) == scenario_schema()
    assert [path.name for path in tmp_path.iterdir()] == ["s.json"]


def test_a_folder_that_is_not_there_is_bad_input(capsim: Capsim) -> None:
    printed = capsim("schema", "--out", "nowhere/s.json")
    assert printed.code == 2
    assert "--out: cannot write nowhere/s.json: No such file or directory" in printed.err
