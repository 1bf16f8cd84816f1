from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from calibrate.importers.sglang_one_batch import measured, read
from capsim.cost import ProfileCost
from capsim.errors import BadInput
from tests.calibrate.step_law import MODEL, REQUEST

SAMPLE = Path(__file__).parent / "samples" / "steps" / "sglang_one_batch.jsonl"
Row = dict[str, Any]


def edited(path: Path, edit: Callable[[list[Row]], object]) -> Path:
    """A copy of the sample whose lines were changed in place."""
    rows: list[Row] = [json.loads(line) for line in SAMPLE.read_text().splitlines()]
    edit(rows)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_the_sample_becomes_a_profile() -> None:
    draft = read(SAMPLE, REQUEST)
    stated = draft.profile().provenance
    assert (stated.importer, stated.engine) == ("sglang-one-batch", "sglang")
    assert (draft.host, draft.host_tag) == (0.0, "measured")
    # Batches of several prompts tell a chunk's attention from its tokens.
    assert draft.attention.prefill.tag == "fitted"


def test_a_line_is_a_prefill_of_all_prompts_and_a_decode_in_the_middle_of_the_output() -> None:
    row = json.loads(SAMPLE.read_text().splitlines()[4])
    prefill, decode = measured(SAMPLE).steps[8:10]
    assert [tuple(chunk) for chunk in prefill.batch.chunks] == [(row["input_len"], 0)] * row["batch_size"]
    assert prefill.seconds == row["prefill_latency"]
    middle = row["input_len"] + row["output_len"] // 2
    assert (decode.batch.decodes, decode.batch.context) == (row["batch_size"], row["batch_size"] * middle)
    assert decode.seconds == row["median_decode_latency"]


def test_the_tables_give_back_the_measured_steps() -> None:
    cost = ProfileCost(read(SAMPLE, REQUEST).profile(), MODEL, "bfloat16", "bfloat16", 1)
    errors = [abs(cost.step(step.batch) / step.seconds - 1) for step in measured(SAMPLE).steps]
    assert sorted(errors)[len(errors) // 2] < 2e-3
    # The worst is a decode that was held out, between a context where attention has its floor and one where it grows.
    assert max(errors) < 0.05


def test_a_line_without_output_has_no_decode(tmp_path: Path) -> None:
    def one_token(rows: list[Row]) -> None:
        rows[0]["output_len"] = 1
        del rows[0]["median_decode_latency"]

    assert len(measured(edited(tmp_path / "one.jsonl", one_token)).steps) == len(measured(SAMPLE).steps) - 1


def test_a_line_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "cut.jsonl"
    path.write_text(SAMPLE.read_text()[:-30])
    with pytest.raises(BadInput, match=r"cut.jsonl:12:\d+: not valid JSON.*cut off here"):
        read(path, REQUEST)


@pytest.mark.parametrize(("factor", "unit"), [(1e3, "milliseconds"), (1e6, "microseconds")])
def test_times_in_another_unit_are_refused(tmp_path: Path, factor: float, unit: str) -> None:
    def scale(rows: list[Row]) -> None:
        for row in rows:
            row["prefill_latency"] *= factor
            row["median_decode_latency"] *= factor

    with pytest.raises(BadInput, match=f"is the file in {unit}.*expected seconds"):
        read(edited(tmp_path / "unit.jsonl", scale), REQUEST)


def test_missing_keys_are_named(tmp_path: Path) -> None:
    def damage(rows: list[Row]) -> None:
        rows[0]["decode_latency"] = rows[0].pop("median_decode_latency")
        rows[1]["batch_size"] = 0
        rows[2]["prefill_latency"] = -1.0

    with pytest.raises(BadInput) as refused:
        read(edited(tmp_path / "keys.jsonl", damage), REQUEST)
    text = str(refused.value)
    assert "keys.jsonl:1:1: median_decode_latency: is missing" in text
    assert "did you mean 'decode_latency'?" in text
    assert "keys.jsonl:2:1: batch_size: 0, expected a whole number of at least 1" in text
    assert "keys.jsonl:3:1: prefill_latency: -1.0, expected a number above 0" in text


def test_many_faults_are_cut_short(tmp_path: Path) -> None:
    def strip(rows: list[Row]) -> None:
        for row in rows:
            del row["input_len"], row["prefill_latency"]

    with pytest.raises(BadInput, match="4 more faults"):
        read(edited(tmp_path / "many.jsonl", strip), REQUEST)


def test_a_grid_with_one_prompt_length_is_refused(tmp_path: Path) -> None:
    def holes(rows: list[Row]) -> None:
        rows[:] = [row for row in rows if row["input_len"] == 1024]

    with pytest.raises(BadInput, match="0 of 4 numbers of decodes were measured at two contexts or more"):
        read(edited(tmp_path / "holes.jsonl", holes), REQUEST)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is empty"),
        ("\n\n", "is empty"),
        ("version https://git-lfs.github.com/spec/v1\n", "is a Git LFS pointer"),
        ('{"duration": 3.0, "ttfts": []}\n', "batch_size: is missing"),
    ],
)
def test_what_is_no_result_is_refused(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "wrong.jsonl"
    path.write_text(text)
    with pytest.raises(BadInput, match=says):
        read(path, REQUEST)
