"""Whatever happens to a file, the command line answers or refuses it in words that name it."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.fuzz.command_line import ANSWERED, check_answered_or_refused
from tests.fuzz.damage import damaged_content
from tests.fuzz.input import Input
from tests.fuzz.inputs import INPUTS

kinds = pytest.mark.parametrize("kind", INPUTS, ids=lambda kind: kind.name)


def asked(kind: Input, command: str, content: bytes) -> int:
    """Ask a command about a file with these bytes; returns its exit code."""
    with tempfile.TemporaryDirectory() as folder:
        kind.write(Path(folder), content)
        arguments = command.replace("FOLDER", folder).split()
        return check_answered_or_refused(arguments, [kind.file, *kind.beside]).code


@kinds
def test_a_sound_file_is_read(kind: Input) -> None:
    """Or its damage would prove nothing."""
    for command in kind.commands:
        assert asked(kind, command, kind.content) == ANSWERED, command


@kinds
def test_a_damaged_file_is_answered_or_refused(kind: Input) -> None:
    @settings(
        max_examples=kind.examples,
        phases=[
            Phase.explicit,
            Phase.reuse,
            Phase.generate,
        ],  # an example is a file: shrunk, it would take minutes
        suppress_health_check=[
            HealthCheck.too_slow,
            HealthCheck.large_base_example,
            HealthCheck.data_too_large,
        ],
    )
    @given(data=st.data())
    def damage_and_ask(data: st.DataObject) -> None:
        content = data.draw(damaged_content(kind.content, kind.syntax))
        asked(kind, data.draw(st.sampled_from(kind.commands)), content)

    damage_and_ask()
