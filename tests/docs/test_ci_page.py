"""The CI step `page`: it may go without a browser only where nobody could install one."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.docs.page import ROOT

NEEDED = ("dirname", "sh", "chmod")
INSTALLS = (
    'case "$1" in install) echo > "$(dirname "$0")/chromium"; chmod +x "$(dirname "$0")/chromium";; esac'
)


class Machine:
    """A folder with a copy of the step, and a path that holds nothing but stand-ins."""

    def __init__(self, folder: Path, user: int) -> None:
        self.folder = folder
        for name in (".ci", "bin", ".venv/bin"):
            (folder / name).mkdir(parents=True)
        shutil.copy(ROOT / ".ci" / "page", folder / ".ci" / "page")
        for name in NEEDED:
            (folder / "bin" / name).symlink_to(str(shutil.which(name)))
        self.program("bin/id", f"echo {user}")
        self.program("bin/timeout", 'shift; exec "$@"')
        self.program(".venv/bin/pip", "")
        self.program(".venv/bin/python", 'echo "tried with $CAPSIM_CHROMIUM"')

    def program(self, name: str, script: str) -> None:
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def run(self) -> tuple[int, str]:
        """Exit code and what is printed."""
        done = subprocess.run(
            [str(shutil.which("bash")), str(self.folder / ".ci" / "page")],
            env={"PATH": str(self.folder / "bin")},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout


def test_a_browser_that_is_there_is_taken(tmp_path: Path) -> None:
    machine = Machine(tmp_path, user=1000)
    machine.program("bin/google-chrome", "")
    assert machine.run() == (0, f"tried with {tmp_path}/bin/google-chrome\n")


def test_root_installs_one(tmp_path: Path) -> None:
    machine = Machine(tmp_path, user=0)
    machine.program("bin/apt-get", INSTALLS)
    assert machine.run() == (0, f"tried with {tmp_path}/bin/chromium\n")


def test_a_fresh_machine_without_one_fails(tmp_path: Path) -> None:
    machine = Machine(tmp_path, user=0)
    machine.program("bin/apt-get", "exit 100")
    code, printed = machine.run()
    assert code == 1
    assert printed.startswith("FAILED: the page is not tried in a browser")


@pytest.mark.parametrize(("user", "installer"), [(1000, True), (0, False)])
def test_where_none_can_be_installed_that_is_said(tmp_path: Path, user: int, installer: bool) -> None:
    machine = Machine(tmp_path, user)
    if installer:
        machine.program("bin/apt-get", INSTALLS)
    code, printed = machine.run()
    assert code == 0
    assert printed.startswith("NOT TRIED IN A BROWSER")
    assert not (tmp_path / "bin" / "chromium").exists()
