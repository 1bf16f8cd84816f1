from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from calibrate.importers.dynamo_fpm import measured, read
from capsim.errors import BadInput
from tests.calibrate.step_law import REQUEST

SAMPLE = Path(__file__).parent / "samples" / "steps" / "dynamo_fpm.jsonl"
Row = dict[str, Any]


def edited(path: Path, edit: Callable[[list[Row]], object]) -> Path:
    """A copy of the sample whose records were changed in place."""
    rows: list[Row] = [json.loads(line) for line in SAMPLE.read_text().splitlines()]
    edit(rows)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_the_sample_becomes_a_profile_whose_host_is_inside() -> None:
    draft = read(SAMPLE, REQUEST)
    assert draft.profile().provenance.importer == "dynamo-fpm"
    assert (draft.host, draft.host_tag) == (0.0, "measured")
    assert [operator.name for operator in draft.operators] == ["step_tokens"]
    mixed = [error for error in draft.held_out if error.regime == "mixed"]
    # Two mixed steps: no grid, so both test the sum of the tables.
    assert sum(error.cases for error in mixed) == 2
    assert max(error.p90 for error in mixed) < 0.03


def test_sums_become_equal_chunks_and_contexts_that_include_the_new_token() -> None:
    steps = measured(SAMPLE).steps
    decode = next(step for step in steps if step.batch.decodes == 4 and not step.batch.chunks)
    assert decode.batch.context == 4 * 256
    chunked = [step for step in steps if [tuple(chunk) for chunk in step.batch.chunks] == [(256, 0)] * 4]
    assert len(chunked) == 1
    after = [step for step in steps if [tuple(chunk) for chunk in step.batch.chunks] == [(2048, 2048)]]
    assert len(after) == 1


def test_sums_that_do_not_divide_are_kept(tmp_path: Path) -> None:
    def odd(rows: list[Row]) -> None:
        counts = {"num_prefill_requests": 3, "sum_prefill_tokens": 100, "sum_prefill_kv_tokens": 50}
        rows[:] = [{**rows[0], "scheduled_requests": {**rows[0]["scheduled_requests"], **counts}}]

    (step,) = measured(edited(tmp_path / "odd.jsonl", odd)).steps
    assert sum(new for new, _ in step.batch.chunks) == 100
    assert sum(past for _, past in step.batch.chunks) == 50
    assert {new for new, _ in step.batch.chunks} == {33, 34}


def test_heartbeats_are_dropped_and_counted(tmp_path: Path) -> None:
    source = measured(SAMPLE)
    assert len(source.steps) == len(SAMPLE.read_text().splitlines()) - 1
    assert any("1 heartbeats" in note for note in source.notes)

    def idle(rows: list[Row]) -> None:
        rows[:] = rows[-1:] * 3

    with pytest.raises(BadInput, match="all 3 records are heartbeats"):
        read(edited(tmp_path / "idle.jsonl", idle), REQUEST)


def test_a_self_benchmark_file_holds_the_same_records_deeper(tmp_path: Path) -> None:
    rows = [json.loads(line) for line in SAMPLE.read_text().splitlines()]
    path = tmp_path / "benchmark.json"
    path.write_text(
        json.dumps({"config": {}, "results": [{"point": {}, "fpms": [row]} for row in rows]}, indent=1)
    )
    assert measured(path).steps == measured(SAMPLE).steps


def test_repeated_shapes_count_once_by_their_median(tmp_path: Path) -> None:
    def repeat(rows: list[Row]) -> None:
        rows += [{**row, "wall_time": row["wall_time"] * factor} for row in rows for factor in (0.9, 1.2)]

    def tables(path: Path) -> tuple[object, ...]:
        draft = read(path, REQUEST)
        return draft.operators, draft.attention.decode.values.tolist(), draft.held_out

    assert tables(edited(tmp_path / "repeated.jsonl", repeat)) == tables(SAMPLE)


def test_another_version_is_refused(tmp_path: Path) -> None:
    def next_version(rows: list[Row]) -> None:
        rows[3]["version"] = 2

    with pytest.raises(BadInput, match=r"version.jsonl:4:1: version: is 2, expected 1"):
        read(edited(tmp_path / "version.jsonl", next_version), REQUEST)


def test_a_line_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "cut.jsonl"
    path.write_text(SAMPLE.read_text()[:-40])
    with pytest.raises(BadInput, match="cut off here"):
        read(path, REQUEST)


def test_milliseconds_are_refused(tmp_path: Path) -> None:
    def scale(rows: list[Row]) -> None:
        for row in rows:
            row["wall_time"] *= 1000

    with pytest.raises(BadInput, match=r"is the file in milliseconds.*expected seconds"):
        read(edited(tmp_path / "ms.jsonl", scale), REQUEST)


def test_missing_keys_are_named(tmp_path: Path) -> None:
    def damage(rows: list[Row]) -> None:
        del rows[0]["wall_time"]
        rows[1]["scheduled_requests"]["sum_decode_tokens"] = rows[1]["scheduled_requests"].pop(
            "sum_decode_kv_tokens"
        )
        rows[12]["scheduled_requests"]["sum_prefill_tokens"] = 0
        del rows[2]["version"]

    with pytest.raises(BadInput) as refused:
        read(edited(tmp_path / "keys.jsonl", damage), REQUEST)
    text = str(refused.value)
    assert "keys.jsonl:1:1: wall_time: is missing" in text
    assert "keys.jsonl:2:1: scheduled_requests.sum_decode_kv_tokens: is missing" in text
    assert "keys.jsonl:3:1: version: is missing" in text
    assert "keys.jsonl:13:1: scheduled_requests.sum_prefill_tokens: 0 for 1 requests" in text


def test_a_worker_that_only_decodes_gives_no_profile(tmp_path: Path) -> None:
    def decodes(rows: list[Row]) -> None:
        rows[:] = [row for row in rows if not row["scheduled_requests"]["num_prefill_requests"]]

    with pytest.raises(BadInput, match="steps of chunks alone were measured at 0 numbers of tokens"):
        read(edited(tmp_path / "decode.jsonl", decodes), REQUEST)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is empty"),
        ("version https://git-lfs.github.com/spec/v1\n", "is a Git LFS pointer"),
        ('{"wall_time": 1.0}\n', "no record has scheduled_requests"),
        (
            '{"version": 1, "wall_time": 1.0, "scheduled_requests": 3}\n',
            "scheduled_requests: 3, expected an object",
        ),
    ],
)
def test_what_is_no_result_is_refused(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "wrong.jsonl"
    path.write_text(text)
    with pytest.raises(BadInput, match=says):
        read(path, REQUEST)


def test_a_stated_host_is_refused_because_it_is_inside() -> None:
    with pytest.raises(BadInput, match="the steps include it"):
        read(SAMPLE, replace(REQUEST, host_overhead=0.001))
