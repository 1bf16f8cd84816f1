"""The reference of results names every field that there is, and none that there is not."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.docs.page import ROOT
from tests.docs.shell import Shell
from tests.docs.test_pages import QUICK_START

PAGE = ROOT / "docs" / "reference" / "result.md"
SCENARIO = "configs/scenarios/chat-llama-3.1-8b-h200.yaml"
SYNTHETIC = (
    "'{prompt_tokens: {distribution: fixed, value: 9}, output_tokens: {distribution: fixed, value: 9},"
    " priorities: [{priority: 0, share: 50%}, {priority: 1, share: 50%}]}'"
)
RESULTS = (
    ("plan", QUICK_START, "chat-llama-3.1-8b-h200"),
    (
        "plan",
        f"capsim plan {SCENARIO} --replicas 2 --set plan.duration=10s --set plan.replications=2"
        " --set plan.literal_replay=false --out runs/served",
        "served",
    ),
    ("run", f"capsim run {SCENARIO} --rate 5/s --requests 50 --out runs/open", "open"),
    ("run", f"capsim run {SCENARIO} --concurrency 2 --requests 50 --out runs/closed", "closed"),
    (
        "run",
        f"capsim run {SCENARIO} --set demand.trace=null --set demand.synthetic={SYNTHETIC} --requests 50"
        " --out runs/synthetic",
        "synthetic",
    ),
    ("fit", f"capsim fit {SCENARIO} --out runs/fitted", "fitted"),
    (
        "fit",
        f"capsim fit {SCENARIO} --log tests/memory/logs/vllm-0.19.log --set gpu=h100-sxm"
        " --set engine.gpu_memory_utilization=0.95 --set engine.max_model_len=8192"
        " --set engine.max_num_seqs=1024 --set engine.max_num_batched_tokens=8192 --out runs/logged",
        "logged",
    ),
)
"""Section that describes it, the command, and its run folder."""
FAILING = (
    f"capsim run {SCENARIO} --rate 5/s --requests 50 --out runs/failing"
    " --set 'fleet.failures=[{replica: 0, at: 1s, down_for: 1s}]'"
)
OTHERS = (
    (
        "infeasible",
        f"capsim plan {SCENARIO} --set engine.gpu_memory_utilization=0.1 --out runs/infeasible",
        "infeasible",
        "result.json",
    ),
    ("course", QUICK_START, "chat-llama-3.1-8b-h200", "course.json"),
    ("course", FAILING, "failing", "course.json"),
)
"""The same of files that have a section of their own without the fields of every result, and the file."""

_CODE = re.compile(r"`([^`]+)`")
_LINK = re.compile(r"\(#([a-z-]+)\)")


class Row(NamedTuple):
    section: str
    path: tuple[str, ...]
    described_in: str


@cache
def tables() -> dict[str, list[Row]]:
    """Rows of each section of the page, by its anchor."""
    found: dict[str, list[Row]] = {}
    section = ""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            section = line[3:].lower().replace(" ", "-")
            found[section] = []
        elif line.startswith("| `"):
            name, meaning = line.strip("| ").split(" | ", 1)
            link = _LINK.search(meaning)
            found[section] += [
                Row(section, tuple(path.split(".")), link[1] if link else "") for path in _CODE.findall(name)
            ]
    for section in ("plan", "run", "fit"):
        found[section] += found["every-result"]
    return found


def undescribed(value: Any, section: str, seen: set[Row], path: tuple[str, ...] = ()) -> Iterator[str]:
    """Paths of a result that a section of the page leaves out; rows that describe something are added to `seen`."""
    row = next((row for row in tables()[section] if _fits(row.path, path)), None)
    if row is not None:
        seen.add(row)
        for part in value if isinstance(value, list) else [value]:
            if row.described_in and part is not None:
                yield from undescribed(part, row.described_in, seen)
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from undescribed(part, section, seen, (*path, key))
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for part in value:
            yield from undescribed(part, section, seen, (*path[:-1], f"{path[-1]}[]"))
    elif value != []:
        yield f"{section}: {'.'.join(path)}"


def _fits(pattern: tuple[str, ...], path: tuple[str, ...]) -> bool:
    return len(pattern) == len(path) and all(
        wanted in ("*", key) for wanted, key in zip(pattern, path, strict=True)
    )


def result(shell: Shell, command: str, folder: str, name: str = "result.json") -> dict[str, Any]:
    shell.begin()
    shell.run(command)
    read: dict[str, Any] = json.loads((shell.folder / "runs" / folder / name).read_text(encoding="utf-8"))
    return read


@pytest.mark.parametrize(
    ("section", "command", "folder"), RESULTS, ids=lambda value: value.partition(" -")[0]
)
def test_every_field_is_described(section: str, command: str, folder: str, shell: Shell) -> None:
    assert list(undescribed(result(shell, command, folder), section, set())) == []


@pytest.mark.parametrize(
    ("section", "command", "folder", "name"), OTHERS, ids=lambda value: value.partition(" -")[0]
)
def test_every_field_of_the_other_files_is_described(
    section: str, command: str, folder: str, name: str, shell: Shell
) -> None:
    assert list(undescribed(result(shell, command, folder, name), section, set())) == []


def test_every_field_that_is_described_is_there(shell: Shell) -> None:
    seen: set[Row] = set()
    for section, command, folder in RESULTS:
        list(undescribed(result(shell, command, folder), section, seen))
    for section, command, folder, name in OTHERS:
        list(undescribed(result(shell, command, folder, name), section, seen))
    described = {row for rows in tables().values() for row in rows}
    assert {row for row in described - seen if row.section != "requests.csv"} == set()


def test_columns_of_requests_are_described(shell: Shell) -> None:
    _, command, folder = RESULTS[1]
    result(shell, command, folder)
    path: Path = shell.folder / "runs" / folder / "requests.csv"
    with path.open(encoding="utf-8", newline="") as file:
        header = next(csv.reader(file))
    assert header == [".".join(row.path) for row in tables()["requests.csv"]]
