"""Damage at any depth of a file's values, and what holds whatever was damaged."""

from __future__ import annotations

import copy
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from capsim.benchmark.csv_columns import read_csv
from capsim.benchmark.definitions import itl_pooled
from capsim.benchmark.reader import definition_of, read_benchmark
from capsim.benchmark.record import BenchmarkRun
from capsim.errors import BadInput, Fault

MOST_TOKENS = 10**6
"""Above which a damaged run is not summarized: definitions that repeat values would fill the memory."""

REPLACEMENTS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**25), 10**25),
    st.floats(),
    st.text(max_size=5),
    st.sampled_from(
        [float("inf"), -1, 0, 1.5, 1e308, "inf", "ms", "\ud800", "null", {}, [], [None], [{}], {"a": 1}]
    ),
)


@st.composite
def damaged(draw: st.DrawFn, values: list[Any]) -> list[Any]:
    """Values of a file in which up to three things, at any depth, were replaced, removed, repeated or cut."""
    hurt: list[Any] = copy.deepcopy(values)
    for _ in range(draw(st.integers(1, 3))):
        place: Any = hurt
        key: Any = 0
        for _ in range(draw(st.integers(1, 9))):
            if not isinstance(place, dict | list) or not place:
                break
            parent = place
            key = draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
            place = place[key]
        how = draw(st.sampled_from(["replace", "remove", "repeat", "cut"]))
        if how == "remove" and parent is not hurt:
            del parent[key]
        elif how == "repeat" and isinstance(parent, list) and parent is not hurt:
            parent.append(copy.deepcopy(place))
        elif how == "cut" and isinstance(place, list):
            del place[draw(st.integers(0, len(place))) :]
        else:
            parent[key] = copy.deepcopy(draw(REPLACEMENTS))
    return hurt


def check(run: BenchmarkRun) -> None:
    """What every run keeps, however its file was damaged."""
    for times in (run.arrival, run.ttft, run.e2e, np.zeros(0) if run.gaps is None else run.gaps):
        assert times.dtype == np.float64
        assert (np.isnan(times) | (times >= 0)).all()
        assert not np.isinf(times).any()
    for tokens in (run.prompt, run.output, run.cached):
        assert tokens.dtype == np.int64
        assert (tokens >= -1).all()
    assert np.isin(run.status, (0, 1, 2)).all()
    assert all(np.isfinite(value) for statistics in run.aggregates.values() for value in statistics.values())
    "\n".join((run.label, run.model, run.tool_version, *run.errors, *run.notes)).encode("utf-8")
    definition = definition_of(run.tool)
    if run.output.sum() <= MOST_TOKENS or definition.itl is itl_pooled:
        summary = definition.summary(definition.counted(run))
        assert all(np.isfinite(value) for statistics in summary.values() for value in statistics.values())
        assert all(np.isfinite(value) for value in definition.throughput(run).values())


def read_or_refuse(content: bytes, name: str) -> None:
    """The file is read, or refused with faults of one line each."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(content)
        runs: list[BenchmarkRun] = []
        faults: tuple[Fault | str, ...] = ()
        try:
            runs = [read_csv(path)] if name.endswith(".csv") else read_benchmark(path)
        except BadInput as error:
            faults = error.faults
        assert bool(runs) != bool(faults)
        assert all(isinstance(fault, Fault) and fault.source == str(path) for fault in faults)
        assert all("\n" not in str(fault) for fault in faults)
        for run in runs:
            check(run)


def lines(values: list[Any]) -> bytes:
    """Values as JSON Lines."""
    return "\n".join(json.dumps(value) for value in values).encode()
