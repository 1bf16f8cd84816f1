"""Each starter is a scenario that every command answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from capsim import documents
from capsim.catalog.data import data_folder, data_names
from capsim.scenario import load
from tests.cli.conftest import Capsim

STARTERS = [name.removesuffix(".yaml") for name in data_names("starters", (".yaml",))]
USES = {"agents", "batch", "chat", "code", "rag", "summarization"}
SOURCES = ("Splitwise, ISCA 2024", "microsoft/vidur", "MLPerf Inference", "LMCache/lmcache-agent-trace")
BUDGET = ("--set", "plan.duration=8s", "--set", "plan.replications=3", "--set", "plan.resolution=30%")
"""Smaller than a starter's own, which takes most of a minute; what is asked is the same."""


def test_the_starters_are_listed_with_a_line_each(capsim: Capsim) -> None:
    printed = capsim("init", "--list")
    assert printed.code == 0
    assert {line.split()[0] for line in printed.out.splitlines()} == USES
    assert all(len(line) <= 120 for line in printed.out.splitlines())
    assert capsim("init").out == printed.out
    assert set(capsim("init", "--list", "--json").json["starters"]) == USES


@pytest.mark.parametrize("name", STARTERS)
def test_what_is_written_is_sound_and_fits(capsim: Capsim, tmp_path: Path, name: str) -> None:
    assert capsim("init", name).code == 0
    written = tmp_path / f"{name}.yaml"
    assert load(written).name == name
    assert load(written) == load(data_folder("starters") / f"{name}.yaml")
    checked = capsim("check", written)
    assert (checked.code, checked.err) == (0, "")
    assert capsim("fit", written).code == 0
    assert (tmp_path / written.read_text().splitlines()[0].rpartition("=")[2]).is_file()


@pytest.mark.parametrize("name", ["chat", "batch"])
def test_what_is_written_is_planned(capsim: Capsim, name: str) -> None:
    capsim("init", name)
    printed = capsim("plan", f"{name}.yaml", "--jobs", "2", "--json", *BUDGET)
    assert printed.code == 0, printed.err
    assert printed.json["answer"]["replicas"] > 0


@pytest.mark.parametrize("name", STARTERS)
def test_a_starter_explains_its_lengths_and_objectives(name: str) -> None:
    """Each says where they come from, or that they are reasoned."""
    text = (data_folder("starters") / f"{name}.yaml").read_text(encoding="utf-8")
    demand, objectives = (text.partition(f"\n{key}:")[2].partition("\n\n")[0] for key in ("demand", "slo"))
    for part in (demand, objectives):
        comment = " ".join(line for line in part.splitlines() if line.strip().startswith("#"))
        assert "Reasoned" in comment or any(mark in comment for mark in SOURCES)


def test_nothing_is_overwritten(capsim: Capsim, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("mine")
    (tmp_path / "scenario.schema.json").write_text("{}")
    printed = capsim("init", "chat", "--out", "mine.yaml")
    assert printed.code == 2
    assert "mine.yaml is there already" in printed.err
    assert (tmp_path / "mine.yaml").read_text() == "mine"
    printed = capsim("init", "chat", "--json")
    assert printed.json == {"starter": "chat", "written": ["chat.yaml"]}
    assert printed.err == (
        "warning: scenario.schema.json is kept, and is not the schema of this version; "
        "capsim schema --out scenario.schema.json writes it anew\n"
    )
    assert (tmp_path / "scenario.schema.json").read_text() == "{}"


def test_a_schema_of_this_version_is_kept_in_silence(capsim: Capsim) -> None:
    capsim("init", "chat")
    printed = capsim("init", "rag")
    assert (printed.code, printed.err) == (0, "")
    assert "scenario.schema.json" not in printed.out.partition("next:")[0]


def test_an_unknown_starter_names_the_known(capsim: Capsim) -> None:
    printed = capsim("init", "chatt")
    assert printed.code == 2
    assert "did you mean 'chat'?" in printed.err
    assert "summarization" in printed.err


def test_the_list_is_of_whole_sentences() -> None:
    for name in STARTERS:
        document = documents.load(data_folder("starters") / f"{name}.yaml")
        assert document.data["name"] == name
        second = (data_folder("starters") / f"{name}.yaml").read_text(encoding="utf-8").splitlines()[1]
        assert second.startswith("# ")
        assert second.endswith(".")
