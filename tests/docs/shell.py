from __future__ import annotations

import os
import shlex
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from unittest import mock

from capsim.cli.main import main
from tests.docs.page import ROOT, SavedFile

BOTH, ANSWER_ONLY = " 2>&1", " 2>/dev/null"


class Shell:
    """Runs the commands of pages in one folder that has the shipped `configs`, importers' samples and start-up logs.

    The printed lines are those on stdout; where the command ends with an exit code, also those on stderr and a line
    ``exit code N``. A command that was run before on the same files is not run again, so that the plan of the quick
    start is simulated once.

    Args:
        folder: empty, to work in.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for shipped in ("configs", "tests/calibrate/samples", "tests/memory/logs"):
            (folder / shipped).parent.mkdir(parents=True, exist_ok=True)
            (folder / shipped).symlink_to(ROOT / shipped)
        self._files: dict[str, str] = {}
        self._done: dict[tuple[str, frozenset[tuple[str, str]]], list[str]] = {}

    def begin(self) -> None:
        """Begin a page: files of the last one are gone, run folders stay."""
        for name in self._files:
            (self.folder / name).unlink()
        self._files.clear()

    def save(self, file: SavedFile) -> None:
        """Save a file of the page."""
        (self.folder / file.name).write_text(file.content, encoding="utf-8")
        self._files[file.name] = file.content

    def run(self, command: str) -> list[str]:
        """The lines that a command prints."""
        key = command, frozenset(self._files.items())
        if key not in self._done:
            printed = self._capsim(command) if command.startswith("capsim ") else self._other(command)
            self._done[key] = printed.rstrip("\n").splitlines()
        return self._done[key]

    def _capsim(self, command: str) -> str:
        """In this process, as importing takes longer than most commands."""
        arguments = shlex.split(command.removesuffix(BOTH).removesuffix(ANSWER_ONLY))[1:]
        answer = StringIO()
        messages = answer if command.endswith(BOTH) else StringIO()
        before = Path.cwd()
        os.chdir(self.folder)
        try:
            with (
                redirect_stdout(answer),
                redirect_stderr(messages),
                mock.patch.dict(os.environ, COLUMNS="100"),
            ):
                main(arguments)
        except SystemExit as ended:
            code = ended.code
        finally:
            os.chdir(before)
        shown = "" if messages is answer or command.endswith(ANSWER_ONLY) or not code else messages.getvalue()
        return f"{shown}{answer.getvalue()}" + (f"exit code {code}\n" if code else "")

    def _other(self, command: str) -> str:
        """By a shell; the tests' own modules from the root of the repository."""
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=ROOT if command.startswith("python -m ") else self.folder,
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout + (f"{done.stderr}exit code {done.returncode}\n" if done.returncode else "")
