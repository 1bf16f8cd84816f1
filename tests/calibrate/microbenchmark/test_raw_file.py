from __future__ import annotations

import json
from pathlib import Path

import pytest

from calibrate.microbenchmark.raw_file import Raw, read_raw
from capsim.errors import BadInput
from tests.calibrate.microbenchmark.fake_bench import FakeBench, run_of


@pytest.fixture
def written(tmp_path: Path) -> Path:
    out = tmp_path / "raw.jsonl"
    run_of(FakeBench(), out, minutes=0.01).measure()
    return out


def lines_of(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines(keepends=True)


def test_every_case_has_one_row(written: Path) -> None:
    raw = read_raw(written)
    cases = run_of(FakeBench(), written).plan.cases()
    assert {row.case for row in raw.rows} == set(cases)
    assert len(raw.rows) == len(cases)


def test_a_row_has_shape_seconds_spread_repeats_and_share(written: Path) -> None:
    rows = [json.loads(line) for line in lines_of(written)[1:]]
    products = [row for row in rows if row["kind"] == "operator" and row["name"] == "qkv_proj"]
    assert products
    for row in products:
        assert {"shape", "seconds", "spread", "repeats", "share"} <= set(row)
        assert 0 < row["share"] <= 1


def test_the_head_says_what_was_measured_and_on_what(written: Path) -> None:
    head = json.loads(lines_of(written)[0])
    assert head["schema_version"] == 1
    assert head["machine"]["name"] == "a law"
    assert head["dtype"] == "bfloat16"
    assert head["shapes"]["layers"] == 6
    assert head["plan"]["limits"]["max_num_batched_tokens"] == 256


def test_a_torn_last_line_is_passed_over(written: Path) -> None:
    whole = read_raw(written)
    text = written.read_text(encoding="utf-8")
    written.write_text(text + lines_of(written)[5][:20], encoding="utf-8")
    torn = read_raw(written)
    assert torn.rows == whole.rows
    assert torn.whole == len(text.encode())


def test_a_damaged_line_inside_is_refused_with_its_place(written: Path) -> None:
    lines = lines_of(written)
    lines[4] = lines[4][:30] + "\n"
    lines[8] = '{"kind": "operator", "name": "qkv_proj"}\n'
    written.write_text("".join(lines), encoding="utf-8")
    with pytest.raises(BadInput, match=r"raw\.jsonl:5:\d+: is no JSON"):
        read_raw(written)
    del lines[4]
    written.write_text("".join(lines), encoding="utf-8")
    with pytest.raises(BadInput, match=r"raw\.jsonl:8:1: is no row"):
        read_raw(written)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"kind": "ceiling", "name": "copy", "shape": {}, "seconds": 1%s}', "is no row"),
        ('{"kind": %s}', "is no JSON"),
    ],
)
def test_what_no_number_holds_is_refused_with_its_place(written: Path, line: str, said: str) -> None:
    lines = lines_of(written)
    lines[4] = line % ("0" * 400 if "seconds" in line else "[" * 100_000) + "\n"
    written.write_text("".join(lines), encoding="utf-8")
    with pytest.raises(BadInput, match=rf"raw\.jsonl:5:1: {said}"):
        read_raw(written)


@pytest.mark.parametrize(
    "text", ["", "{}\n", '{"kind": "operator"}\n', "name: a scenario\nmodel: llama-3.1-8b\ngpu: h200\n"]
)
def test_a_file_without_a_head_is_refused_once(tmp_path: Path, text: str) -> None:
    path = tmp_path / "raw.jsonl"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(BadInput) as refused:
        read_raw(path)
    (fault,) = refused.value.faults
    assert str(fault) == f"{path}:1:1: has no head, expected a file of capsim calibrate run"


def test_another_version_is_refused(written: Path) -> None:
    text = written.read_text(encoding="utf-8").replace('"schema_version": 1', '"schema_version": 2', 1)
    written.write_text(text, encoding="utf-8")
    with pytest.raises(BadInput, match="version 2"):
        read_raw(written)


def test_seconds_that_are_none_are_refused(written: Path) -> None:
    lines = lines_of(written)
    place = next(place for place, line in enumerate(lines) if '"operator"' in line)
    row = json.loads(lines[place]) | {"seconds": 0.0}
    lines[place] = json.dumps(row) + "\n"
    written.write_text("".join(lines), encoding="utf-8")
    with pytest.raises(BadInput, match=r"seconds 0\.0"):
        read_raw(written)


def test_conditions_stand_between_the_rows(written: Path) -> None:
    raw: Raw = read_raw(written)
    assert len(raw.conditions) >= 2
