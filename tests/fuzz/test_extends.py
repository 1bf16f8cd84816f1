"""Files that extend each other in any way: a chain, a circle, or one that leads nowhere."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.command_line import ANSWERED, BAD_INPUT, check_answered_or_refused
from tests.fuzz.inputs import scenario

FILES = ("scenario.yaml", "first.yaml", "second.yaml", "third.yaml")
ELSEWHERE = (
    "nowhere.yaml",
    "../nowhere.yaml",
    ".",
    "/",
    "/dev/null",
    "''",
    "[first.yaml]",
    "1",
    "~",
    "\t",
    "a\\0b",
)
BASES = st.sampled_from((*FILES, *ELSEWHERE, None))
LONG = 100
"""Files in a chain; each is read on the way to the first."""


def written(folder: Path, file: str, base: str | None) -> None:
    """A file that extends another, or else is a scenario."""
    text = scenario() if base is None else f"extends: {base}\nname: {file}\n"
    (folder / file).write_text(text, encoding="utf-8")


@given(bases=st.tuples(*(BASES for _ in FILES)))
def test_whatever_they_extend_they_are_answered_or_refused(bases: tuple[str | None, ...]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, base in zip(FILES, bases, strict=True):
            written(folder, file, base)
        check_answered_or_refused(["check", str(folder / FILES[0])], list(FILES))


@pytest.mark.parametrize(
    ("last", "code"), [(None, ANSWERED), ("0.yaml", BAD_INPUT), ("nowhere.yaml", BAD_INPUT)]
)
def test_a_long_chain_is_followed_to_its_end(tmp_path: Path, last: str | None, code: int) -> None:
    for place in range(LONG):
        written(tmp_path, f"{place}.yaml", f"{place + 1}.yaml" if place + 1 < LONG else last)
    printed = check_answered_or_refused(["check", str(tmp_path / "0.yaml")], [f"{LONG - 1}.yaml"])
    assert printed.code == code
