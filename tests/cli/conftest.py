from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from capsim.cli.main import main

REPOSITORY = Path(__file__).parents[2]
SMALL = REPOSITORY / "tests" / "plan" / "small.yaml"
QUICK_START = REPOSITORY / "configs" / "scenarios" / "chat-llama-3.1-8b-h200.yaml"


@dataclass(frozen=True)
class Printed:
    """What a command left: exit code, stdout, stderr."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Capsim = Callable[..., Printed]


@pytest.fixture
def capsim(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Capsim:
    """Run the command line in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> Printed:
        words: Sequence[str] = [str(argument) for argument in arguments]
        with pytest.raises(SystemExit) as exit_:
            main(words)
        captured = capsys.readouterr()
        return Printed(int(exit_.value.code or 0), captured.out, captured.err)

    return run
