from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capsim.benchmark.benchmark_file import BenchmarkFile
from capsim.benchmark.genai_perf import EMPTY
from capsim.benchmark.reader import FORMATS, definition_of, read_benchmark
from capsim.benchmark.record import ERROR, OK
from tests.benchmark.damage import damaged, lines, read_or_refuse
from tests.benchmark.result_files import FILES, faults_of, only, written

REQUESTS = FILES / "genai_perf" / "profile_export.json"
FIGURES = FILES / "genai_perf" / "profile_export_genai_perf.json"


def export() -> dict[str, Any]:
    data: dict[str, Any] = json.loads(REQUESTS.read_text(encoding="utf-8"))
    return data


def with_outputs(outputs: Any, stamps: int = 2) -> dict[str, Any]:
    """An export of one request, with these outputs at 10 ms each."""
    request = {
        "timestamp": 1000,
        "response_timestamps": [1000 + (index + 1) * 10_000_000 for index in range(stamps)],
        "response_outputs": outputs,
    }
    return {"experiments": [{"experiment": {"mode": "concurrency", "value": 1}, "requests": [request]}]}


@pytest.mark.parametrize(
    "path",
    [
        path
        for path in sorted(FILES.rglob("*"))
        if path.suffix in (".json", ".jsonl", ".yaml") and path.relative_to(FILES).parts[0] != "csv"
    ],
    ids=lambda path: str(path.relative_to(FILES)),
)
def test_a_file_is_of_one_tool_alone(path: Path) -> None:
    first = BenchmarkFile.read(path).values[0]
    assert [each.TOOL for each in FORMATS if each.recognizes(first)] == [read_benchmark(path)[0].tool]


def test_every_experiment_is_a_run() -> None:
    first, second = read_benchmark(REQUESTS)
    assert [(run.tool, run.label) for run in (first, second)] == [
        ("genai-perf", "concurrency 2"),
        ("genai-perf", "request_rate 5"),
    ]
    assert (first.concurrency, first.request_rate) == (2, None)
    assert (second.concurrency, second.request_rate) == (None, 5.0)
    assert first.capabilities == second.capabilities == {"requests", "arrivals", "gaps"}


def test_chunks_without_text_are_no_tokens() -> None:
    run = read_benchmark(REQUESTS)[0]
    # Usage and [DONE] come after the third chunk with text; two chunks in one response are one gap.
    np.testing.assert_allclose(run.arrival, [0.0, 1.000001e-3, 60e-3], rtol=1e-12)
    np.testing.assert_allclose(run.ttft[:2], [40e-3, 50e-3], rtol=1e-12)
    np.testing.assert_allclose(run.e2e[:2], [62e-3, 70e-3], rtol=1e-12)
    assert run.gaps is not None
    np.testing.assert_allclose(run.gaps, [10e-3, 12e-3, 20e-3], rtol=1e-12)
    assert run.gap_starts is not None
    assert run.gap_starts.tolist() == [0, 2, 3, 3]


def test_tokens_are_known_where_the_server_stated_them() -> None:
    run = read_benchmark(REQUESTS)[0]
    assert run.prompt.tolist() == [100, -1, -1]
    assert run.output.tolist() == [3, -1, -1]


def test_a_request_without_content_is_an_error() -> None:
    run = read_benchmark(REQUESTS)[0]
    assert run.status.tolist() == [OK, OK, ERROR]
    assert run.errors[2] == EMPTY
    assert np.isnan([run.ttft[2], run.e2e[2]]).all()


def test_its_definition_leaves_out_what_is_unknown() -> None:
    run = read_benchmark(REQUESTS)[0]
    definition = definition_of(run.tool)
    summary = definition.summary(definition.counted(run))
    assert summary["itl"]["p99"] == pytest.approx(11e-3, rel=1e-12)
    assert summary["ttft"]["p90"] == pytest.approx(only(FIGURES).aggregates["ttft"]["p90"], rel=1e-12)
    assert definition.window(run) == pytest.approx(71.000001e-3, rel=1e-12)


def test_figures() -> None:
    run = only(FIGURES)
    assert (run.tool, run.model, len(run)) == ("genai-perf", "tiny", 0)
    assert run.aggregates["requests"] == {"ok": 2}
    assert run.aggregates["itl"]["mean"] == pytest.approx(10.5e-3, rel=1e-12)
    assert run.aggregates["output_throughput"] == {"mean": 84.5}
    assert run.capabilities == set()


@pytest.mark.parametrize(
    ("outputs", "responses", "tokens"),
    [
        ([{"output_ids": [1, 2]}, {"output_ids": 3}], 2, 3),
        ([{"output_ids": [1]}, {"output_ids": []}], 1, 1),
        ([{"text_output": "a"}, {"text_output": ""}], 1, -1),
        ([{"response": 'data: {"choices": [{"text": "a"}]}'}, {"response": ""}], 1, -1),
        ([{"response": '{"choices": [{"message": {"content": "a"}}]}'}, {"response": "data: [DONE]"}], 1, -1),
        ([{"response": '{"choices": []}'}, {"response": '{"generated_text": "a"}'}], 1, -1),
        ([{"response": 'data: {"choices": [{"te'}, {"response": ": a comment"}], 1, -1),
        (None, 2, -1),
    ],
    ids=["ids", "no ids", "Triton", "completion", "not streamed", "generate", "part of a chunk", "not kept"],
)
def test_kinds_of_output(tmp_path: Path, outputs: Any, responses: int, tokens: int) -> None:
    run = only(written(tmp_path, with_outputs(outputs)))
    assert run.gaps is not None
    assert len(run.gaps) + 1 == responses
    assert run.output.tolist() == [tokens]


@pytest.mark.parametrize(
    ("path", "value", "key", "what"),
    [
        ((), [], "experiments", "is empty"),
        ((0, "experiment"), None, "experiments[0].experiment", "is missing"),
        ((0, "requests"), None, "experiments[0].requests", "is missing"),
        ((0, "experiment", "value"), "two", "experiments[0].experiment.value", "is the text 'two'"),
        ((0, "requests", 1, "timestamp"), None, "experiments[0].requests[1].timestamp", "is missing"),
        ((0, "requests", 1, "timestamp"), 1.5, "experiments[0].requests[1].timestamp", "is 1.5"),
        (
            (0, "requests", 1, "response_timestamps", 1),
            5,
            "experiments[0].requests[1].response_timestamps",
            "fall, or begin before timestamp",
        ),
        (
            (0, "requests", 1, "response_timestamps"),
            [1],
            "experiments[0].requests[1].response_outputs",
            "has 2 items",
        ),
        (
            (0, "requests", 1, "response_outputs", 0, "response"),
            5,
            "experiments[0].requests[1].response_outputs[0].response",
            "is 5",
        ),
    ],
)
def test_a_wrong_value_is_told_with_its_place(
    tmp_path: Path, path: tuple[str | int, ...], value: Any, key: str, what: str
) -> None:
    data: Any = export()
    inside, last = data, "experiments"
    for step in path:
        inside, last = inside[last], step  # type: ignore[assignment]
    inside[last] = value
    (fault,) = faults_of(written(tmp_path, data))
    assert (fault.key, fault.what) == (key, what)
    assert fault.line == 1


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_damaged_requests_are_read_or_refused(data: st.DataObject) -> None:
    read_or_refuse(lines(data.draw(damaged([export()]))), "profile_export.json")


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_damaged_figures_are_read_or_refused(data: st.DataObject) -> None:
    figures = json.loads(FIGURES.read_text(encoding="utf-8"))
    read_or_refuse(lines(data.draw(damaged([figures]))), "profile_export_genai_perf.json")
