from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from calibrate.engine.replay import Replayed, replay
from calibrate.engine.result import result
from calibrate.engine.trace import TraceRequest, at_rate, prompts, read_trace
from capsim.benchmark.reader import read_benchmark
from capsim.errors import BadInput
from tests.calibrate.engine.stepping import SteppingEngine

ROWS = [
    {"timestamp": 2000, "input_length": 20, "output_length": 3, "hash_ids": [7, 8]},
    {"timestamp": 1000, "input_length": 21, "output_length": 1, "hash_ids": [7, 9]},
    {"timestamp": 1200, "input_length": 9, "output_length": 5},
]


def trace(folder: Path) -> Path:
    path = folder / "trace.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return path


def replayed(folder: Path, requests: list[TraceRequest]) -> tuple[SteppingEngine, Replayed]:
    engine = SteppingEngine(folder)
    texts = prompts(requests, engine.vocabulary, 1, 16)
    return engine, asyncio.run(replay(engine, requests, texts, "test"))


def test_a_trace_is_read_in_order_from_its_first_request(tmp_path: Path) -> None:
    requests = read_trace(trace(tmp_path))
    assert [request.arrival for request in requests] == pytest.approx([0.0, 0.2, 1.0])
    assert [request.hashes for request in requests] == [(7, 9), (), (7, 8)]


def test_time_is_stretched_to_a_rate(tmp_path: Path) -> None:
    requests = read_trace(trace(tmp_path))
    assert at_rate(requests, None) == requests
    faster = at_rate(requests, 30.0)
    assert [request.arrival for request in faster] == pytest.approx([0.0, 0.02, 0.1])


def test_equal_hashes_are_equal_tokens_and_nothing_else_is(tmp_path: Path) -> None:
    requests = read_trace(trace(tmp_path))
    first, second, third = prompts(requests, 100, 1, 16)
    assert [len(each) for each in (first, second, third)] == [21, 9, 20]
    assert first[:16] == third[:16]
    assert first[16:20] != third[16:20]
    assert second[:9] != first[:9]
    assert prompts(requests, 100, 1, 16)[0] == first
    assert prompts(requests, 100, 2, 16)[0] != first
    assert all(3 <= token < 100 for token in first)


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"input_length": 1, "output_length": 1}, "timestamp: is missing"),
        ({"timestamp": 0, "input_length": 0, "output_length": 1}, "input_length: 0, expected a whole number"),
        (
            {"timestamp": 0, "input_length": 1, "output_length": 1, "hash_ids": "a"},
            "hash_ids: 'a', expected a list",
        ),
    ],
)
def test_a_damaged_trace_is_refused(tmp_path: Path, row: dict[str, object], says: str) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text(json.dumps(row) + "\n")
    with pytest.raises(BadInput, match=says):
        read_trace(path)


def test_requests_are_sent_at_their_times_whatever_the_others_do(tmp_path: Path) -> None:
    requests = [TraceRequest(0.0, 5, 200), TraceRequest(0.02, 5, 2), TraceRequest(0.04, 5, 2)]
    engine, run = replayed(tmp_path, requests)
    sent = [answer.sent - run.start for answer in run.answers]
    assert all(at >= request.arrival for at, request in zip(sent, requests, strict=True))
    assert run.answers[2].sent < run.answers[0].tokens[-1]
    late = max(at - request.arrival for at, request in zip(sent, requests, strict=True))
    assert run.latest == pytest.approx(late, abs=1e-6)
    assert max(decodes for _, decodes in engine.steps) > 1
    assert run.end == max(run.answers[0].tokens)


def test_a_result_is_read_as_one_of_vllms(tmp_path: Path) -> None:
    requests = at_rate(read_trace(trace(tmp_path)), 50.0)
    _, run = replayed(tmp_path / "log", requests)
    path = tmp_path / "result.json"
    path.write_text(json.dumps(result(run, "tiny", "a label", 50.0)))
    [benchmark] = read_benchmark(path)
    assert (benchmark.tool, benchmark.label, benchmark.model) == ("vllm bench serve", "a label", "tiny")
    assert benchmark.request_rate == 50.0
    assert benchmark.prompt.tolist() == [21, 9, 20]
    assert benchmark.output.tolist() == [1, 5, 3]
    first = run.answers[0].sent
    assert benchmark.arrival == pytest.approx([answer.sent - first for answer in run.answers], abs=1e-5)
    assert benchmark.ttft == pytest.approx(
        [answer.tokens[0] - answer.sent for answer in run.answers], abs=1e-5
    )
