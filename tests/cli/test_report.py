"""``capsim report``, and the page that ``plan`` and ``run`` leave."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from capsim import __version__
from tests.cli.conftest import SMALL, Capsim

QUICK = (
    "--set",
    "plan.duration=20s",
    "--set",
    "plan.replications=2",
    "--set",
    "plan.resolution=20%",
    "--jobs",
    "1",
)
IMPOSSIBLE = ("--set", "slo.ttft={p95: 1ms}")
DRAWN = ("report.html", "knee.png")


@pytest.fixture
def run(capsim: Capsim, tmp_path: Path) -> Path:
    """Folder of a short run."""
    capsim("run", SMALL, "--rate", "5/s", "--requests", "60", "--jobs", "1", "--out", tmp_path / "run")
    return tmp_path / "run"


def changed(folder: Path, **fields: object) -> None:
    path = folder / "result.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def test_a_plan_is_drawn_again_byte_for_byte(capsim: Capsim, tmp_path: Path) -> None:
    planned = capsim("plan", SMALL, *QUICK, "--out", tmp_path / "plan")
    first = {name: (tmp_path / "plan" / name).read_bytes() for name in DRAWN}
    for name in DRAWN:
        (tmp_path / "plan" / name).unlink()
    printed = capsim("report", tmp_path / "plan")
    assert (printed.code, printed.out) == (0, planned.out)
    assert {name: (tmp_path / "plan" / name).read_bytes() for name in DRAWN} == first
    assert printed.err == f"written to {tmp_path / 'plan'}: knee.png, report.html\n"


def test_nothing_but_the_folder_is_needed(capsim: Capsim, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No simulation, and no scenario file: the folder may have moved to another machine."""
    monkeypatch.setattr("capsim.plan.experiment.simulate", None)
    moved = run.rename(run.with_name("moved"))
    printed = capsim("report", moved, "--json")
    assert printed.code == 0
    assert printed.json == json.loads((moved / "result.json").read_text())


def test_figures_go_where_they_are_asked_to_go(capsim: Capsim, run: Path, tmp_path: Path) -> None:
    printed = capsim("report", run, "--out", tmp_path / "elsewhere")
    assert printed.code == 0
    assert {file.name for file in (tmp_path / "elsewhere").iterdir()} == {"report.html"}
    assert (tmp_path / "elsewhere" / "report.html").read_bytes() == (run / "report.html").read_bytes()


def test_the_page_shows_the_command_that_was_typed(run: Path, tmp_path: Path) -> None:
    typed = f"capsim run {SMALL} --rate 5/s --requests 60 --jobs 1 --out {tmp_path / 'run'}"
    assert (run / "command.txt").read_text() == f"{typed}\n"
    assert f"<code>{typed}</code>" in (run / "report.html").read_text()


def test_a_question_without_an_answer_has_a_page_too(capsim: Capsim, tmp_path: Path) -> None:
    asked = capsim("plan", SMALL, *QUICK, *IMPOSSIBLE, "--out", tmp_path / "none")
    assert asked.code == 3
    result = json.loads((tmp_path / "none" / "result.json").read_text())
    assert result["schema"] == "capsim.infeasible"
    assert result["limit"] in asked.err
    assert "feasible answer" in (tmp_path / "none" / "report.html").read_text()
    printed = capsim("report", tmp_path / "none")
    assert printed.code == 0
    assert result["limit"] in printed.out


def test_what_does_not_fit_has_a_page_with_what_would_help(capsim: Capsim, tmp_path: Path) -> None:
    large = ("--set", "model=llama-3.1-70b", "--set", "engine.num_gpu_blocks=null")
    asked = capsim("run", SMALL, *large, "--set", "gpu=l4", "--out", tmp_path / "none")
    assert asked.code == 3
    result = json.loads((tmp_path / "none" / "result.json").read_text())
    assert result["remedies"]
    page = (tmp_path / "none" / "report.html").read_text()
    assert "What would help" in page


def test_an_earlier_page_of_a_folder_does_not_outlive_its_answer(capsim: Capsim, run: Path) -> None:
    """A question without an answer, asked into the folder of a run, shows nothing of that run."""
    capsim("plan", SMALL, *QUICK, *IMPOSSIBLE, "--out", run)
    assert (run / "course.json").exists()
    assert "Latency distributions" not in (run / "report.html").read_text()


def test_another_version_is_said(capsim: Capsim, run: Path) -> None:
    changed(run, capsim_version="0.0.9")
    printed = capsim("report", run)
    assert printed.code == 0
    assert f"written by capsim 0.0.9, drawn by capsim {__version__}" in printed.err


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"schema_version": 99}, "is of format 99, by capsim"),
        (
            {"schema": "capsim.fit"},
            "is a capsim.fit, expected one of capsim.plan, capsim.run, capsim.infeasible",
        ),
        (
            {"summary": {}, "capsim_version": "0.0.9"},
            "lacks what a capsim.run holds: 'steps_outside'; written by capsim 0.0.9",
        ),
    ],
)
def test_a_result_that_cannot_be_drawn_says_why(
    capsim: Capsim, run: Path, fields: dict[str, object], said: str
) -> None:
    changed(run, **fields)
    printed = capsim("report", run)
    assert printed.code == 2
    assert f"{run / 'result.json'}: {said}" in printed.err


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ([], "does not hold what a capsim.run holds: list indices must be integers"),
        ({"counts": {}}, "lacks what a capsim.run holds: 'steps_outside'"),
    ],
)
def test_the_same_is_said_where_it_is_explained(capsim: Capsim, run: Path, value: object, said: str) -> None:
    changed(run, summary=value)
    for command in ("report", "explain"):
        printed = capsim(command, run)
        assert printed.code == 2
        assert f"{run / 'result.json'}: " in printed.err
    assert said in capsim("report", run).err


def test_of_a_damaged_course_the_course_is_named(capsim: Capsim, run: Path) -> None:
    course = json.loads((run / "course.json").read_text())
    (run / "course.json").write_text(json.dumps({**course, "timeline": {}}))
    printed = capsim("report", run)
    assert printed.code == 2
    assert f"{run / 'course.json'}: lacks what a capsim.course holds: " in printed.err


def test_a_lost_course_is_said(capsim: Capsim, run: Path) -> None:
    assert "warning" not in capsim("report", run).err
    (run / "course.json").unlink()
    printed = capsim("report", run)
    assert printed.code == 0
    assert printed.err.startswith(f"warning: there is no course.json in {run}: the page is drawn without")
    assert "Latency distributions" not in (run / "report.html").read_text()


def test_a_folder_that_is_no_run_folder(capsim: Capsim, tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "missing"):
        printed = capsim("report", folder)
        assert printed.code == 2
        assert "is no run folder: there is no result.json and no sweep.json" in printed.err
        assert "a folder that capsim plan, or capsim run or sweep with --out, has written" in printed.err


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'{"schema": "capsim.run",\n  ]', "result.json:2:3: not valid YAML while parsing a flow node"),
        (b"[]", "result.json:1:1: the top level is a list"),
        (b"\xff\xfe", "result.json:1:1: byte 0xff is not UTF-8"),
        (b"", "result.json:1:1: is empty"),
    ],
)
def test_a_damaged_result_is_named_with_its_place(
    capsim: Capsim, tmp_path: Path, content: bytes, said: str
) -> None:
    (tmp_path / "result.json").write_bytes(content)
    printed = capsim("report", tmp_path)
    assert printed.code == 2
    assert said in printed.err
