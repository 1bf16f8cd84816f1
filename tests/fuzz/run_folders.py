"""Files of run folders, as capsim writes them."""

from __future__ import annotations

import json
import tempfile
from functools import cache, partial
from pathlib import Path

from tests.fuzz.command_line import run
from tests.fuzz.input import Input, file_content
from tests.report.results import HERE as STORED

SMALL = STORED.parent / "plan" / "small.yaml"
REPORT = "report FOLDER --out FOLDER/drawn"
ANSWERS = ("explain FOLDER", REPORT)


SHORT_RUN = ("run", str(SMALL), "--rate", "5/s", "--requests", "50")
SHORT_SWEEP = (
    *("sweep", str(SMALL), "--over", "rate=5/s,90/s", "--over", "engine.num_gpu_blocks=100,4000"),
    *("--set", "plan.duration=5s", "--set", "plan.replications=2"),
)
IMPOSSIBLE = ("plan", str(SMALL), "--replicas", "1", "--set", "plan.drills=[replica_missing]")


@cache
def _made(file: str, command: tuple[str, ...]) -> bytes:
    """A file of the folder that a command leaves."""
    with tempfile.TemporaryDirectory() as folder:
        run([*command, "--out", folder, "--jobs", "1"])
        return (Path(folder) / file).read_bytes()


def _course() -> bytes:
    """Of a short run; its lists are cut, so that a damage often hits what matters."""
    course = json.loads(_made("course.json", SHORT_RUN))
    bins = {name: bins[:4] if isinstance(bins, list) else bins for name, bins in course["timeline"].items()}
    return json.dumps({**course, "timeline": bins}, indent=1).encode()


RESULT = partial(_made, "result.json", SHORT_RUN)

RUN_FOLDERS = (
    Input("result of a plan", "result.json", file_content(STORED / "plan.json"), ANSWERS),
    Input("result of a run", "result.json", file_content(STORED / "run-rate.json"), ANSWERS, examples=40),
    Input(
        "result without an answer",
        "result.json",
        partial(_made, "result.json", IMPOSSIBLE),
        ANSWERS,
    ),
    Input("result of a sweep", "sweep.json", partial(_made, "sweep.json", SHORT_SWEEP), (REPORT,)),
    Input("course of a run", "course.json", _course, (REPORT,), {"result.json": RESULT}, optional=True),
    Input(
        "command of a run",
        "command.txt",
        b"capsim run configs/scenarios/chat-llama-3.1-8b-h200.yaml --set demand.target=200/s --out runs/peak\n".strip,
        (REPORT,),
        {"result.json": RESULT},
        examples=10,
        optional=True,
    ),
)
