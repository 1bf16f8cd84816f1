"""The samples of the documentation, from the measurement that it shows."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from calibrate.engine.engine import Answer
from calibrate.engine.replay import Replayed
from calibrate.engine.result import result
from calibrate.engine_steps import header_path
from tests.loop.measured import STEPS, read_runs

FOLDER = Path(__file__).parents[1] / "calibrate" / "samples" / "engine"
LOAD = "medium"
"""Whose first run is the sample of a replay."""
STEPS_KEPT = 2000
"""Of the controlled steps: the first rounds of batches, enough to show."""


def keep_samples(folder: Path) -> None:
    """Write the controlled steps, packed, and a replay's result."""
    FOLDER.mkdir(exist_ok=True)
    steps = folder / STEPS
    lines = steps.read_text(encoding="utf-8").splitlines(keepends=True)
    kept = "".join(lines[: 1 + STEPS_KEPT]).encode()
    (FOLDER / "steps.csv.gz").write_bytes(gzip.compress(kept, mtime=0))
    (FOLDER / "steps.json").write_bytes(header_path(steps).read_bytes())
    run = next(run for run in read_runs(folder) if run.load == LOAD)
    answers = tuple(
        Answer(sent, times, cached)
        for sent, times, cached in zip(run.sent, run.tokens, run.cached, strict=True)
    )
    members = result(Replayed(0.0, run.requests, answers), "tinyllama-512", run.load, round(run.rate, 3))
    (FOLDER / "replay.json").write_text(json.dumps(members) + "\n", encoding="utf-8")
