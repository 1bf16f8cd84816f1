"""The files that tests of benchmark readers share, and how they are damaged and refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from capsim.benchmark.reader import read_benchmark
from capsim.benchmark.record import BenchmarkRun
from capsim.errors import BadInput, Fault

FILES = Path(__file__).parent / "files"


def written(folder: Path, *values: Any, name: str = "result.json") -> Path:
    """A file of JSON values, one a line."""
    path = folder / name
    path.write_text("\n".join(json.dumps(value) for value in values) + "\n", encoding="utf-8")
    return path


def faults_of(path: Path, read: Callable[[Path], object] = read_benchmark) -> list[Fault]:
    """The faults for which a file is refused; each is a Fault."""
    with pytest.raises(BadInput) as caught:
        read(path)
    faults = [fault for fault in caught.value.faults if isinstance(fault, Fault)]
    assert len(faults) == len(caught.value.faults) > 0
    assert all("\n" not in str(fault) for fault in faults)
    return faults


def only(path: Path) -> BenchmarkRun:
    """The one run of a file."""
    (run,) = read_benchmark(path)
    return run
