"""Priorities of requests: drawn by stated shares, or read from a trace."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from capsim.workload.arrivals import PoissonArrivals
from capsim.workload.azure import read_azure
from capsim.workload.demand import SyntheticDemand, TraceDemand
from capsim.workload.lengths import FixedLength
from capsim.workload.mooncake import read_mooncake
from capsim.workload.priorities import PriorityMix

HEADER = "TIMESTAMP,priority,ContextTokens,GeneratedTokens\n"
SEED = np.random.SeedSequence(1)


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_priorities_have_the_stated_shares() -> None:
    drawn = PriorityMix(((-1, 0.2), (0, 0.5), (7, 0.3))).sample(100_000, np.random.default_rng(1))
    values, counts = np.unique(drawn, return_counts=True)
    assert values.tolist() == [-1, 0, 7]
    # Three standard deviations of a share of a half among 100,000 draws are 0.5 %.
    np.testing.assert_allclose(counts / len(drawn), [0.2, 0.5, 0.3], atol=0.005)


def test_priorities_leave_arrivals_and_lengths_as_they_were() -> None:
    plain = SyntheticDemand(PoissonArrivals(), FixedLength(100), FixedLength(10))
    mixed = SyntheticDemand(
        plain.arrivals, plain.prompt, plain.output, priorities=PriorityMix(((0, 0.5), (1, 0.5)))
    )
    one, other = (demand.draw(5.0, 60.0, SEED) for demand in (plain, mixed))
    assert one.arrival.tolist() == other.arrival.tolist()
    assert one.priority is None
    assert other.priority is not None
    assert len(other.priority) == len(other)
    assert mixed.description()["source"].endswith("priorities 0 (50%), 1 (50%)")
    assert (plain.states_priorities, mixed.states_priorities) == (False, True)


def test_a_column_of_priorities_follows_its_rows(tmp_path: Path) -> None:
    """Sorted by time with them, and drawn with them."""
    rows = "2024-10-15T12:00:05Z,2,10,1\n2024-10-15T12:00:01Z,-3,20,1\n2024-10-15T12:00:09Z,high,30,1\n"
    trace = read_azure(written(tmp_path, "t.csv", HEADER + rows))
    assert trace.priority is not None
    assert trace.priority.tolist() == [-3, 2]
    assert [row.reason for row in trace.dropped] == ["priority is not a whole number"]
    assert trace.ignored_columns == ()
    demand = TraceDemand(trace)
    assert demand.states_priorities
    for requests in (demand.recorded(), demand.saturating(50, SEED)):
        assert requests.priority is not None
        of = dict(zip(requests.prompt.tolist(), requests.priority.tolist(), strict=True))
        assert of == {20: -3, 10: 2}


def test_a_trace_without_priorities_states_none(tmp_path: Path) -> None:
    text = "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-10-15T12:00:05Z,10,1\n"
    trace = read_azure(written(tmp_path, "t.csv", text))
    assert trace.priority is None
    assert not TraceDemand(trace).states_priorities


def test_priorities_in_json_lines_are_0_where_a_row_has_none(tmp_path: Path) -> None:
    lines = (
        '{"timestamp": 2, "input_length": 10, "output_length": 1, "hash_ids": [1], "priority": 5}',
        '{"timestamp": 1, "input_length": 20, "output_length": 1, "hash_ids": [2]}',
        '{"timestamp": 3, "input_length": 30, "output_length": 1, "hash_ids": [3], "priority": 0.5}',
    )
    trace = read_mooncake(written(tmp_path, "t.jsonl", "\n".join(lines)))
    assert trace.priority is not None
    assert trace.priority.tolist() == [0, 5]
    assert [row.reason for row in trace.dropped] == ["priority is not a whole number"]
    requests = TraceDemand(trace).draw(1.0, 20.0, SEED)
    assert requests.priority is not None
    of = dict(zip(requests.prompt.tolist(), requests.priority.tolist(), strict=True))
    assert of == {20: 0, 10: 5}
