from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import pytest

from calibrate.command import calibrate
from capsim.cost import load_profile
from capsim.errors import BadInput

SAMPLE = Path(__file__).parent / "samples" / "llmservingsim"
SHIPPED = sorted((Path(__file__).parents[2] / "configs" / "profiles").glob("rtx*.json"))
Scale = Callable[[float], float]


@dataclass(frozen=True)
class Printed:
    """What a command left on stdout and stderr."""

    out: str
    err: str


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Printed]:
    """Run ``capsim calibrate``; errors pass through, as `capsim.cli.main` wants them."""

    def run(*arguments: object) -> Printed:
        calibrate.main([str(argument) for argument in arguments], standalone_mode=False)
        return Printed(*capsys.readouterr())

    return run


def _arguments(path: Path, out: Path, *more: str) -> tuple[object, ...]:
    return ("import", "--from", "llmservingsim", path, "--model", "llama-3.1-8b", "--out", out, *more)


def _scaled(folder: Path, scale: float) -> Path:
    """A copy of the sample whose times are all multiplied, as a wrong unit does."""
    copy = Path(shutil.copytree(SAMPLE, folder / "sample"))
    for path in (copy / "tp1").glob("*.csv"):
        if path.name == "skew.csv":
            continue
        header, *rows = path.read_text().splitlines()
        cells = [row.split(",") for row in rows]
        lines = [",".join([*row[:-1], f"{float(row[-1]) * scale:.9g}"]) for row in cells]
        path.write_text("\n".join([header, *lines]) + "\n")
    return copy


def test_import_writes_a_profile_and_says_what_was_filled(
    run: Callable[..., Printed], tmp_path: Path
) -> None:
    out = tmp_path / "profile.json"
    printed = run(*_arguments(SAMPLE, out, "--host-overhead", "1ms"))
    assert load_profile(out).host == 0.001
    assert "decode of 64 at 2,048" in printed.out
    assert "assumed to be 1 ms in every step" in printed.out
    assert "prefill of 8,192 tokens" in printed.out
    assert "outside the measured range" in printed.out
    assert printed.err == ""


def test_as_json(run: Callable[..., Printed], tmp_path: Path) -> None:
    answer: dict[str, Any] = json.loads(
        run(*_arguments(SAMPLE, tmp_path / "profile.json", "--option", "skew=on", "--json")).out
    )
    assert len(answer["steps"]) == 6
    assert [answer["attention"][name]["tag"] for name in ("skew", "mixed_skew")] == ["fitted", "fitted"]
    steps = {step["name"]: step for step in answer["steps"]}
    decode = steps["decode of 1 at 2,048"]
    # The weights are what one decode reads: tables and roofline differ by what the roofline's efficiencies are off.
    assert decode["seconds"] == pytest.approx(decode["roofline"], rel=0.25)


def test_the_same_source_gives_the_same_bytes(run: Callable[..., Printed], tmp_path: Path) -> None:
    for name in ("a.json", "b.json"):
        run(*_arguments(SAMPLE, tmp_path / name))
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()


@pytest.mark.parametrize(
    ("scale", "said"),
    [
        (1e-3, "too fast by 895: is it in milliseconds?"),
        (1e-6, "is it in seconds?"),
        (0.5, "is it another model, dtype, GPU or number of ranks?"),
        (1e3, "in a smaller unit, such as nanoseconds?"),
    ],
)
def test_times_in_another_unit_are_refused(
    run: Callable[..., Printed], tmp_path: Path, scale: float, said: str
) -> None:
    out = tmp_path / "profile.json"
    with pytest.raises(BadInput) as refused:
        run(*_arguments(_scaled(tmp_path, scale), out))
    assert said in str(refused.value)
    assert not out.exists()


def test_a_gpu_without_a_data_sheet_is_a_warning(run: Callable[..., Printed], tmp_path: Path) -> None:
    copy = Path(shutil.copytree(SAMPLE, tmp_path / "sample"))
    meta = copy / "meta.yaml"
    meta.write_text(meta.read_text().replace("RTX 4090", "RTX 9999"))
    printed = run(*_arguments(copy, tmp_path / "profile.json", "--gpu", "rtx-9999"))
    assert printed.err.startswith("warning: rtx-9999 is not in the catalog")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--model", "llama-3.1-9b"), "'llama-3.1-9b' is not in the catalog"),
        (("--host-overhead", "1"), "--host-overhead"),
        (("--option", "graph_sizes"), "expected NAME=VALUE"),
        (("--dtype", "fp8"), "expected dtype fp8"),
        (("--from", "elsewhere"), "importer 'elsewhere' is not known"),
    ],
)
def test_faults_of_the_command_line(
    run: Callable[..., Printed], tmp_path: Path, more: tuple[str, ...], said: str
) -> None:
    with pytest.raises(BadInput) as refused:
        run(*_arguments(SAMPLE, tmp_path / "profile.json", *more))
    assert said in str(refused.value)


def test_help_names_the_sources_and_has_an_example() -> None:
    text = calibrate.commands["import"].get_help(click.Context(calibrate.commands["import"]))
    assert "Example:" in text
    assert "llmservingsim" in text


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_profiles_say_whose_they_are(path: Path) -> None:
    stated = load_profile(path).provenance
    assert stated.licence == "MIT"
    assert "KAIST" in stated.attribution
    assert (path.parent / "LICENSES" / "llmservingsim-MIT.txt").is_file()
