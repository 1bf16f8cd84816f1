"""What is slow to import is imported only by the command that needs it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.cli.conftest import QUICK_START, REPOSITORY

HEAVY = ("torch", "matplotlib", "scipy.stats", "joblib", "jinja2")

CHECK = f"""
from capsim.cli.main import main
try:
    main(["check", {str(QUICK_START)!r}])
except SystemExit as end:
    assert not end.code
"""


@pytest.mark.parametrize("code", ["import capsim", CHECK], ids=["import capsim", "capsim check"])
def test_nothing_heavy_is_imported(code: str) -> None:
    program = f"import sys\n{code}\nprint([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["pln"]])
def test_a_list_of_commands_imports_none(arguments: list[str]) -> None:
    """Neither what they compute with nor what they read scenarios with: of capsim, the command line alone."""
    imported = _imported(arguments)
    assert not {"numpy", "pydantic", "yaml", "simpy", "scipy", "rich"} & imported
    ours = {name for name in imported if name.startswith(("capsim.", "calibrate"))}
    assert ours <= {"capsim.cli", "capsim.cli.lazy_group", "capsim.cli.main", "capsim.errors"}


def test_a_run_imports_neither_other_commands_nor_what_draws_fits_or_shares_work() -> None:
    imported = _imported(["run", str(QUICK_START), "--rate", "5/s", "--requests", "200"])
    others = ("catalog", "check", "doctor", "explain", "fit", "init", "plan", "schema", "sweep", "validate")
    assert not {f"capsim.cli.{name}" for name in others} & imported
    heavy = {"matplotlib", "jinja2", "joblib", "rich", "torch", "scipy", "calibrate"}
    assert not heavy & imported


def _imported(arguments: list[str]) -> set[str]:
    """Modules that are there once the command has ended."""
    program = (
        "import sys\nfrom capsim.cli.main import main\n"
        f"try:\n    main({arguments!r})\nexcept SystemExit:\n    pass\n"
        "print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    return set(done.stdout.splitlines()[-1].split())
