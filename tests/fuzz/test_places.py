"""Where a file is expected stands something else, or nothing that can be read."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings

from capsim.catalog.loader import read_gpu
from capsim.errors import BadInput, Fault
from tests.fuzz.command_line import BAD_INPUT, check_answered_or_refused
from tests.fuzz.damage import damaged_content
from tests.fuzz.input import Input
from tests.fuzz.inputs import CONFIGS, INPUTS

GPU = (CONFIGS / "gpus" / "h200.yaml").read_bytes()


def _loop(path: Path) -> None:
    path.symlink_to(path)


PLACES: dict[str, Callable[[Path], object]] = {
    "nothing": lambda path: None,  # noqa: ARG005
    "a folder": Path.mkdir,
    "a link to nothing": lambda path: path.symlink_to(path.with_name("gone")),
    "a link to itself": _loop,
    "empty": Path.touch,
    "a device": lambda path: path.symlink_to("/dev/null"),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", INPUTS, ids=lambda kind: kind.name)
def test_what_is_no_file_is_refused(kind: Input, place: str, tmp_path: Path) -> None:
    kind.write(tmp_path, b"")
    (tmp_path / kind.file).unlink()
    PLACES[place](tmp_path / kind.file)
    for command in kind.commands:
        arguments = command.replace("FOLDER", str(tmp_path)).split()
        code = check_answered_or_refused(arguments, [kind.file]).code
        assert code == BAD_INPUT or kind.optional, command


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may read every file")
@pytest.mark.parametrize("kind", INPUTS, ids=lambda kind: kind.name)
def test_an_unreadable_file_is_refused(kind: Input, tmp_path: Path) -> None:
    kind.write(tmp_path, kind.content)
    (tmp_path / kind.file).chmod(0)
    for command in kind.commands:
        arguments = command.replace("FOLDER", str(tmp_path)).split()
        assert check_answered_or_refused(arguments, [kind.file]).code == BAD_INPUT, command


@settings(max_examples=100)
@given(content=damaged_content(GPU, ".yaml"))
def test_a_damaged_data_sheet_is_read_or_refused(
    content: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Of the catalog; no command takes one from elsewhere."""
    path = tmp_path_factory.mktemp("gpu") / "gpu.yaml"
    path.write_bytes(content)
    faults: tuple[Fault | str, ...] = ()
    try:
        read_gpu(path)
    except BadInput as error:
        faults = error.faults
    assert all("gpu.yaml" in str(fault) for fault in faults)
