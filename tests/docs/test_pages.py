"""What README and documentation show is what the commands print and the generators write."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.docs.elision import difference, matches
from tests.docs.generators import GENERATORS
from tests.docs.knee import PICTURE, knee_figures
from tests.docs.page import ROOT, Console, Generated, SavedFile, page_paths, read_page
from tests.docs.picture import pictured
from tests.docs.profile_figures import PICTURES, kept, profile_figures
from tests.docs.shell import Shell

REFRESH = "run python -m tests.docs and look at what it changes"
QUICK_START = "capsim plan configs/scenarios/chat-llama-3.1-8b-h200.yaml"

pages = pytest.mark.parametrize("path", page_paths(), ids=lambda path: path.relative_to(ROOT).as_posix())


@pages
def test_commands_print_what_the_page_shows(path: Path, shell: Shell) -> None:
    shell.begin()
    wrong = []
    for part in read_page(path).parts:
        if isinstance(part, SavedFile):
            shell.save(part)
        if isinstance(part, Console) and part.tested:
            for exchange in part.exchanges:
                printed = shell.run(exchange.command)
                if not matches(exchange.output, printed):
                    wrong.append(f"$ {exchange.command}\n{difference(exchange.output, printed)}")
    assert not wrong, "\n\n".join([REFRESH, *wrong])


@pages
def test_generated_parts_are_fresh(path: Path) -> None:
    for part in read_page(path).parts:
        if isinstance(part, Generated):
            assert list(part.body) == GENERATORS[part.name](), REFRESH


def test_each_generator_has_a_place() -> None:
    parts = [part for path in page_paths() for part in read_page(path).parts]
    assert {part.name for part in parts if isinstance(part, Generated)} == set(GENERATORS)


@pages
def test_reading_and_writing_change_nothing(path: Path) -> None:
    assert read_page(path).text == path.read_text(encoding="utf-8")


@pages
def test_no_page_names_a_place_on_this_machine(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"(?<![\w./])/(home|root|tmp|usr|var|work)/", text)
    assert str(ROOT) not in text


@pytest.fixture(scope="module")
def quick_start(shell: Shell) -> Path:
    """Run folder of the quick start."""
    shell.begin()
    shell.run(QUICK_START)
    return shell.folder / "runs" / "chat-llama-3.1-8b-h200"


def test_the_knee_is_the_quick_starts(quick_start: Path) -> None:
    assert pictured(PICTURE) == knee_figures(quick_start), REFRESH


@pytest.mark.parametrize("name", PICTURES)
def test_the_profiles_pictures_are_fresh(name: str) -> None:
    assert pictured(kept(name)) == profile_figures(name), REFRESH


def test_the_drill_is_for_the_fleet_of_the_quick_start(quick_start: Path) -> None:
    """The one place where an author has typed a figure of an answer."""
    replicas = json.loads((quick_start / "result.json").read_text(encoding="utf-8"))["answer"]["replicas"]
    text = (ROOT / "docs" / "howto" / "drill-a-failure.md").read_text(encoding="utf-8")
    assert set(re.findall(r"--replicas (\d+)", text)) == {str(replicas)}


def test_the_gateways_limit_helps_and_hurts_where_its_page_says() -> None:
    """Its prose says which of five runs is better, and by much."""
    text = (ROOT / "docs" / "howto" / "hold-back-at-the-gateway.md").read_text(encoding="utf-8")
    free, limited, queued, ample, small = (
        float(rate) for rate in re.findall(r"Goodput ([\d.]+) requests/s", text)
    )
    assert free < queued < limited / 5
    assert small < ample / 5
    assert re.findall(r"error rate +([\d.]+)%", text)[0] == "0"


def test_the_pictures_are_small() -> None:
    """A page with one loads at once on a slow line; in few colours none needs more."""
    assert all(path.stat().st_size < 100_000 for path in (ROOT / "docs").rglob("*.png"))


def test_the_quick_start_is_shown_with_its_answer() -> None:
    """Command lines for a fresh clone stand four spaces in, after their mark, where CI finds them."""
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    start, tests = (lines.index(f"<!-- {mark} -->") + 1 for mark in ("quick-start", "tests"))
    assert lines[start].startswith("    python3 -m venv")
    assert lines[start + 1] == f"    .venv/bin/{QUICK_START}"
    assert lines[tests].startswith("    python3 -m venv")
    assert f"$ {QUICK_START}" in lines


@pytest.mark.parametrize("page", ["fidelity", "public"])
def test_figures_of_a_comparison_are_those_of_its_page(page: str) -> None:
    """README says in one sentence what a page says at length, and names it."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    [item] = [item for item in text.split("\n- ") if f"](docs/background/{page}.md)" in item.split("\n\n")[0]]
    shown = (ROOT / "docs" / "background" / f"{page}.md").read_text(encoding="utf-8")
    figures = re.findall(r"\d+(?:\.\d+)?%", item.split("\n\n")[0])
    assert figures
    assert [figure for figure in figures if figure not in shown] == []
