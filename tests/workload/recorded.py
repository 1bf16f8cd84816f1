"""Recorded traces that the tests read: beside them, and larger ones where there is a folder of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

TRACES = Path(__file__).parent / "traces"
SHIPPED = Path(__file__).parents[2] / "configs" / "traces"
VARIABLE = "CAPSIM_TRACES"


def whole(name: str) -> Path:
    """A trace too large to be kept here; skips the test where there is none."""
    stated = os.environ.get(VARIABLE)
    folder = Path(stated) if stated else Path(__file__).parents[3] / "shared" / "traces"
    path = folder / name
    if not path.is_file():
        where = (
            f"the folder that {VARIABLE} names" if stated else f"shared/traces; {VARIABLE} may name a folder"
        )
        pytest.skip(f"there is no {name} in {where}")
    return path
