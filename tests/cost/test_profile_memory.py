"""The `memory` of a profile: read, and every fault of it told."""

import json
from pathlib import Path
from typing import Any

import pytest

from capsim.cost import load_profile
from capsim.cost.profile_memory import MemoryBlock, MemoryFigure, MemoryPeaks
from capsim.errors import BadInput
from tests.cost.profiles import document, write

ORIGIN = {"tag": "measured", "source": "log", "version": "0.19.0"}
MEMORY: dict[str, Any] = {
    "total": {**ORIGIN, "bytes": 85029610455},
    "non_torch": {**ORIGIN, "source": "run", "version": "2.13.0+cu130", "bytes": 0},
    "activations": {**ORIGIN, "tokens": [2048, 8192], "sequences": [256, 1024], "bytes": [600, 2000]},
    "block": {**ORIGIN, "tag": "derived", "tokens": 16, "bytes": 2097152},
}


def test_what_was_measured_is_read(tmp_path: Path) -> None:
    memory = load_profile(write(tmp_path, {**document(), "memory": MEMORY})).memory
    assert memory is not None
    assert memory.figures == {
        "total": MemoryFigure(85029610455, "measured", "log", "0.19.0"),
        "non_torch": MemoryFigure(0, "measured", "run", "2.13.0+cu130"),
    }
    assert memory.activations == MemoryPeaks(
        (2048, 8192), (256, 1024), (600, 2000), "measured", "log", "0.19.0"
    )
    assert memory.block == MemoryBlock(16, 2097152, "derived", "log", "0.19.0")


def test_a_profile_without_it_says_so(tmp_path: Path) -> None:
    assert load_profile(write(tmp_path, document())).memory is None


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        ("total", {**ORIGIN}, "memory.total.bytes: is missing"),
        ("total", {**ORIGIN, "bytes": -1}, "memory.total.bytes: -1, expected a whole number of at least 0"),
        ("total", {**ORIGIN, "tag": "guessed", "bytes": 1}, "memory.total.tag: 'guessed', expected measured"),
        ("total", {**ORIGIN, "source": "logs", "bytes": 1}, "memory.total.source: 'logs', expected run or"),
        (
            "total",
            {**ORIGIN, "version": "new", "bytes": 1},
            "memory.total.version: 'new', expected a version",
        ),
        ("weight", {**ORIGIN, "bytes": 1}, "memory.weight: is not a key here, did you mean 'weights'"),
        ("block", {**ORIGIN, "bytes": 1}, "memory.block.tokens: is missing"),
        (
            "activations",
            {**ORIGIN, "tokens": [2, 1], "sequences": [1, 1], "bytes": [1, 1]},
            "memory.activations.tokens: 1 follows 2",
        ),
        (
            "activations",
            {**ORIGIN, "tokens": [1, 2], "sequences": [1, 1], "bytes": [1]},
            "memory.activations.bytes: 1 values, expected 2 values",
        ),
    ],
)
def test_a_fault_is_told_with_its_place(tmp_path: Path, part: str, value: Any, message: str) -> None:
    path = write(tmp_path, {**document(), "memory": {"graphs": {**ORIGIN, "bytes": 1}, part: value}})
    with pytest.raises(BadInput) as refused:
        load_profile(path)
    assert message in str(refused.value)
    assert f"{path}:" in str(refused.value)


def test_nothing_in_it_is_a_fault(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="memory: is empty, expected any of total, weights"):
        load_profile(write(tmp_path, {**document(), "memory": {}}))


def test_every_fault_is_told_at_once(tmp_path: Path) -> None:
    damaged = json.loads(json.dumps(MEMORY))
    damaged["total"]["bytes"], damaged["block"]["tokens"] = "many", 0
    with pytest.raises(BadInput) as refused:
        load_profile(write(tmp_path, {**document(), "memory": damaged}))
    assert len(refused.value.faults) == 2
