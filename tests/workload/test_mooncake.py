from __future__ import annotations

import gzip
import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from capsim.errors import BadInput, Fault
from capsim.workload.mooncake import read_mooncake
from capsim.workload.trace import Trace
from tests.workload.recorded import SHIPPED, TRACES, whole

SAMPLE = SHIPPED / "mooncake_conversation_first2000.jsonl.gz"


def row(**other: Any) -> str:
    """A line of a trace, good unless `other` makes it bad."""
    return json.dumps({"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [1, 2], **other})


def written(folder: Path, *lines: str, name: str = "trace.jsonl") -> Path:
    path = folder / name
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def faults_of(path: Path, block_size: int = 512) -> list[Fault]:
    with pytest.raises(BadInput) as caught:
        read_mooncake(path, block_size)
    faults = [fault for fault in caught.value.faults if isinstance(fault, Fault)]
    assert len(faults) == len(caught.value.faults)
    assert {fault.source for fault in faults} == {str(path)}
    return faults


def paths_of(trace: Trace) -> list[tuple[tuple[int, int], ...]]:
    assert trace.prefixes is not None
    return [trace.prefixes.path(index) for index in range(len(trace))]


@pytest.mark.parametrize(
    ("path", "block", "requests", "prompt", "output", "duration", "out_of_order"),
    [
        (SAMPLE, 512, 2_000, 27_441_774, 704_602, 669.0, 0),
        (TRACES / "mooncake_arxiv_mixed_93.jsonl", 512, 93, 715_620, 18_606, 12.215, 0),
        (TRACES / "agent_miniswe_derived.jsonl", 64, 402, 2_480_122, 44_094, 552.131, 124),
    ],
    ids=lambda value: value.name if isinstance(value, Path) else "",
)
def test_traces_have_their_known_totals(
    path: Path, block: int, requests: int, prompt: int, output: int, duration: float, out_of_order: int
) -> None:
    trace = read_mooncake(path, block)
    assert len(trace) == trace.rows == requests
    assert (int(trace.prompt.sum()), int(trace.output.sum())) == (prompt, output)
    # Whole milliseconds, so the duration is exact to rounding.
    assert trace.duration == pytest.approx(duration, abs=1e-9)
    assert trace.out_of_order == out_of_order
    assert trace.hash_block == block
    assert trace.attribution


def test_the_whole_conversation_trace_has_its_known_totals() -> None:
    trace = read_mooncake(whole("mooncake_conversation.jsonl.gz"))
    assert (len(trace), int(trace.prompt.sum()), int(trace.output.sum())) == (12_031, 144_793_823, 4_122_048)
    assert trace.duration == pytest.approx(3536.999, abs=1e-9)
    assert trace.notes == ()
    assert trace.prefixes is not None
    # One node an id would be 288,500; what few requests share is a few chains each.
    assert len(trace.prefixes.nodes) < 3 * len(trace)


def test_the_shipped_trace_names_its_source() -> None:
    trace = read_mooncake(SAMPLE)
    assert trace.name == "mooncake_conversation_first2000"
    assert "Mooncake" in trace.attribution
    assert "Apache-2.0" in trace.attribution
    assert trace.sha256 == hashlib.sha256(SAMPLE.read_bytes()).hexdigest()


def test_full_hits_short_ids_and_missing_ids() -> None:
    trace = read_mooncake(TRACES / "mooncake_full_hit_short_ids_missing_ids.jsonl")
    assert trace.prompt.tolist() == [1024, 1024, 1025, 600]
    # The third has ids for its first 1,024 tokens only, the fourth has none.
    assert paths_of(trace) == [((0, 1024),), ((0, 1024),), ((0, 1024),), ()]
    assert [(each.number, each.reason) for each in trace.dropped] == [(6, "output_length is 0")]
    assert [note.split(": ", 1)[1] for note in trace.notes] == [
        "dropped 1 of 5 rows: output_length is 0 (line 6)",
        "1 of 4 rows have no hash_ids; they share nothing",
        "1 of 4 rows have fewer hash_ids than blocks of 512 tokens; the rest is not shared",
    ]


def test_ids_after_other_ids_are_other_blocks_and_nanoseconds_survive() -> None:
    trace = read_mooncake(TRACES / "jsonl_string_nanoseconds_unchained_ids.jsonl")
    assert trace.arrival.tolist() == [0.0, 256e-9]
    assert paths_of(trace) == [((0, 512),), ((0, 512),)]


def test_rows_with_a_chat_id_are_in_seconds() -> None:
    trace = read_mooncake(TRACES / "bailian_seconds_block16_missing_parent.jsonl", 16)
    # Differences of 61.114, 75.5 and 76 s; float64 keeps them to well below a nanosecond.
    assert trace.arrival.tolist() == pytest.approx([0.0, 14.386, 14.886], abs=1e-12)
    # 40 tokens are two whole blocks of 16 and half of a third, which the longer prompt fills.
    assert paths_of(trace) == [((0, 32),), ((0, 32),), ()]
    assert trace.ignored_columns == ("chat_id", "parent_chat_id", "type", "turn")
    assert "seconds" in trace.notes[-1]


def test_a_wrong_block_size_is_seen() -> None:
    faults = faults_of(TRACES / "agent_miniswe_derived.jsonl")
    assert faults[0].what == "no usable row among 402"
    assert faults[1].what == "input_length is too short for its hash_ids of 512 tokens each"
    short = read_mooncake(SAMPLE, 16)
    assert "2000 of 2000 rows have fewer hash_ids than blocks of 16 tokens" in short.notes[-1]


def test_rows_are_sorted_with_their_prefixes(tmp_path: Path) -> None:
    lines = (
        row(timestamp=9, input_length=512, hash_ids=[1]),
        row(timestamp=5, input_length=100, hash_ids=[3]),
        row(timestamp=7.5, input_length=1024),
    )
    trace = read_mooncake(written(tmp_path, *lines))
    assert trace.arrival.tolist() == [0.0, 0.0025, 0.004]
    assert trace.prompt.tolist() == [100, 1024, 512]
    assert paths_of(trace) == [(), ((0, 512),), ((0, 512),)]
    assert trace.out_of_order == 1


def test_ties_keep_the_order_of_the_file(tmp_path: Path) -> None:
    trace = read_mooncake(written(tmp_path, *(row(input_length=n, hash_ids=[]) for n in (5, 3, 4))))
    assert trace.prompt.tolist() == [5, 3, 4]


def test_a_trace_without_any_ids_has_no_prefixes(tmp_path: Path) -> None:
    trace = read_mooncake(written(tmp_path, row(hash_ids=None), row(hash_ids=[])))
    assert trace.prefixes is None
    assert trace.notes == ("trace.jsonl: 2 of 2 rows have no hash_ids; they share nothing",)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"timestamp": 0, "input_length"', "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ("[1, 2]", "not a JSON object"),
        (row(input_length=0), "input_length is 0"),
        (row(output_length=0), "output_length is 0"),
        (row(input_length=-600), "input_length is not a whole number of tokens"),
        (row(input_length=600.0), "input_length is not a whole number of tokens"),
        (row(output_length=True), "output_length is not a whole number of tokens"),
        (row(output_length=10**30), "output_length is not a whole number of tokens"),
        (row(output_length=None), "output_length is not a whole number of tokens"),
        (row(timestamp=None), "timestamp is not a time"),
        (row(timestamp="today"), "timestamp is not a time"),
        (row(timestamp=True), "timestamp is not a time"),
        (row(timestamp=float("nan")), "timestamp is not a time"),
        (row(timestamp=1e300), "timestamp is not a time"),
        (row(hash_ids=5), "hash_ids is not a list of whole numbers"),
        (row(hash_ids=[1, "2"]), "hash_ids is not a list of whole numbers"),
        (row(hash_ids=[1, 2, 3]), "input_length is too short for its hash_ids of 512 tokens each"),
    ],
)
def test_a_bad_row_is_dropped_with_line_and_reason(tmp_path: Path, line: str, reason: str) -> None:
    trace = read_mooncake(written(tmp_path, "", line, row()))
    assert [(each.number, each.reason) for each in trace.dropped] == [(2, reason)]
    assert trace.prompt.tolist() == [600]


def test_hashes_may_be_of_any_size(tmp_path: Path) -> None:
    trace = read_mooncake(written(tmp_path, row(hash_ids=[2**80, -1]), row(hash_ids=[2**80, 7])))
    assert paths_of(trace) == [((0, 512),), ((0, 512),)]


def test_gzip_is_known_by_its_content_too(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_bytes(gzip.compress(row().encode()))
    assert read_mooncake(path).prompt.tolist() == [600]


@pytest.mark.parametrize("damage", [lambda packed: packed[:-20], lambda packed: b"x" + packed])
def test_a_damaged_gzip_file_is_refused(tmp_path: Path, damage: Any) -> None:
    path = tmp_path / "trace.jsonl.gz"
    path.write_bytes(damage(SAMPLE.read_bytes()))
    (fault,) = faults_of(path)
    assert fault.what.startswith("is damaged as gzip")


def test_a_gzip_file_with_damaged_content_is_refused(tmp_path: Path) -> None:
    packed = bytearray(SAMPLE.read_bytes())
    packed[2000:2100] = bytes(np.random.default_rng(1).integers(0, 256, 100, dtype=np.uint8))
    path = tmp_path / "trace.jsonl.gz"
    path.write_bytes(packed)
    (fault,) = faults_of(path)
    assert fault.what.startswith("is damaged as gzip")


@pytest.mark.parametrize("name", ["trace.jsonl", "trace.jsonl.gz"])
def test_a_git_lfs_pointer_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes((TRACES / "git_lfs_pointer.csv").read_bytes())
    (fault,) = faults_of(path)
    assert "Git LFS pointer" in fault.what


def test_missing_and_empty_files(tmp_path: Path) -> None:
    (missing,) = faults_of(tmp_path / "nowhere.jsonl")
    assert "No such file" in missing.what
    (empty,) = faults_of(written(tmp_path, "", " "))
    assert empty.what == "is empty"


def test_a_csv_file_has_no_usable_row() -> None:
    faults = faults_of(TRACES / "azure_no_header_crlf_no_final_newline.csv")
    assert [fault.what for fault in faults] == ["no usable row among 3", *["not valid JSON"] * 3]
    assert [fault.line for fault in faults] == [None, 1, 2, 3]
