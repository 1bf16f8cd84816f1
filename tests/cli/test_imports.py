"""What is slow to import is imported only by the command that needs it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.cli.conftest import QUICK_START, REPOSITORY

HEAVY = ("torch", "matplotlib", "scipy.stats", "joblib")

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
