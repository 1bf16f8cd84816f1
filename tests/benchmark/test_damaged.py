"""Whatever happens to a file, it is read or refused with faults; nothing else is raised."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.benchmark.damage import read_or_refuse
from tests.benchmark.result_files import FILES, faults_of

SMALL = 8
"""Requests that are kept of the real file, so that a damage often hits what matters."""


def cut(result: dict[str, Any]) -> dict[str, Any]:
    return {
        key: [item[:3] if isinstance(item, list) else item for item in value[:SMALL]]
        if isinstance(value, list)
        else value
        for key, value in result.items()
    }


VLLM = cut(json.loads((FILES / "vllm" / "rate2.json").read_text(encoding="utf-8")))
SGLANG = json.loads((FILES / "sglang" / "two_runs.jsonl").read_text(encoding="utf-8").splitlines()[0])
CSV = (FILES / "csv" / "own_names.csv").read_bytes()

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**30), 10**30),
    st.floats(),
    st.text(max_size=5),
    st.sampled_from(["inf", "\ud800", -1, 0, 1e308, "trace"]),
)
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@st.composite
def damaged(draw: st.DrawFn, result: dict[str, Any]) -> dict[str, Any]:
    """A result in which up to three values were replaced, removed, cut short or made negative."""
    hurt: dict[str, Any] = json.loads(json.dumps(result))
    for _ in range(draw(st.integers(1, 3))):
        key = draw(st.sampled_from(sorted(hurt)))
        value = hurt[key]
        how = draw(st.sampled_from(["replace", "remove", "shorten", "item"]))
        if how == "remove":
            del hurt[key]
        elif how == "shorten" and isinstance(value, list):
            hurt[key] = value[: draw(st.integers(0, len(value)))]
        elif how == "item" and isinstance(value, list) and value:
            value[draw(st.integers(0, len(value) - 1))] = draw(anything)
        else:
            hurt[key] = draw(anything)
    return hurt


@pytest.mark.parametrize("result", [VLLM, SGLANG], ids=["vllm", "sglang"])
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_a_result_with_wrong_values_is_read_or_refused(result: dict[str, Any], data: st.DataObject) -> None:
    hurt = data.draw(damaged(result))
    read_or_refuse(json.dumps(hurt).encode(), "result.json")


@pytest.mark.parametrize("result", [VLLM, SGLANG], ids=["vllm", "sglang"])
@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_a_truncated_result_is_refused(result: dict[str, Any], data: st.DataObject) -> None:
    content = json.dumps(result, indent=1).encode()
    kept = data.draw(st.integers(0, len(content) - 1))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "result.json"
        path.write_bytes(content[:kept])
        (fault,) = faults_of(path)
    assert fault.line is not None or kept == 0


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (json.dumps(VLLM).encode(), "result.json"),
        (json.dumps(SGLANG).encode(), "result.jsonl"),
        (CSV, "a.csv"),
    ],
    ids=["vllm", "sglang", "csv"],
)
@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_a_file_with_wrong_bytes_is_read_or_refused(content: bytes, name: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(content) - 1))
    length = data.draw(st.integers(0, 8))
    read_or_refuse(content[:start] + data.draw(st.binary(max_size=8)) + content[start + length :], name)


@settings(max_examples=100, deadline=None)
@given(content=st.binary(max_size=60), name=st.sampled_from(["a.json", "a.jsonl", "a.csv", "a.yaml"]))
def test_any_bytes_are_refused(content: bytes, name: str) -> None:
    read_or_refuse(content, name)


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "is empty"),
        (b"\xff\xfe", "is not text (byte 0)"),
        (b"[" * 100_000, "holds JSON that cannot be read"),
        (b'{"a": ' + b"1" * 5000 + b"}", "holds JSON that cannot be read"),
        (b'{"a": 1,}', "is not valid JSON"),
        (b'{"a": 1}', "is of no known tool; keys found: a"),
        (b"[]", "is of no known tool; keys found: none"),
        (b"5", "is of no known tool; keys found: none"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_files_of_no_tool_say_what_was_looked_for(tmp_path: Path, content: bytes, what: str) -> None:
    path = tmp_path / "result.json"
    path.write_bytes(content)
    (fault,) = faults_of(path)
    assert fault.what.startswith(what)
    assert "result" in fault.expected
