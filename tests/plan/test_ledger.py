"""Finished experiments are kept as they were, or not at all."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from capsim.plan.ledger import Ledger

RECORD = {"goodput": 14.27, "gates": [1e-300, 0.1, -0.0], "overloaded": "", "samples": 7889, "é": None}


def test_a_record_is_read_as_it_was_put(tmp_path: Path) -> None:
    path = tmp_path / "experiments.jsonl"
    Ledger(path).put("first", RECORD)
    Ledger(path).put("second", {"ttft": math.inf})
    again = Ledger(path)
    assert (again.get("first"), again.get("second")) == (RECORD, {"ttft": math.inf})


@pytest.mark.parametrize(("old", "new"), [("14.27", "24.27"), ('"first"', '"furst"'), ("7889", "7889.0")])
def test_a_damaged_record_is_dropped(tmp_path: Path, old: str, new: str) -> None:
    """Whole JSON under a right key, and yet not what was simulated."""
    path = tmp_path / "experiments.jsonl"
    Ledger(path).put("first", RECORD)
    Ledger(path).put("second", RECORD)
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    damaged = lines[0].replace(old, new)
    assert damaged != lines[0]
    path.write_text(damaged + lines[1], encoding="utf-8")
    again = Ledger(path)
    assert len(again) == 1
    assert again.get("second") == RECORD
