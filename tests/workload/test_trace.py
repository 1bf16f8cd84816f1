from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

import numpy as np
import pytest

from capsim.errors import BadInput, Fault
from capsim.workload.azure import read_azure
from capsim.workload.burstiness import dispersion_of_counts, gap_cv
from capsim.workload.trace import Trace

TRACES = Path(__file__).parent / "traces"
AZURE_2023 = Path(__file__).parents[2] / "configs" / "traces" / "azure_conv_2023.csv"
HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens\n"


@pytest.fixture(scope="module")
def azure() -> Trace:
    return read_azure(AZURE_2023)


def written(folder: Path, text: str | bytes) -> Path:
    path = folder / "trace.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def faults_of(path: Path) -> list[Fault]:
    with pytest.raises(BadInput) as caught:
        read_azure(path)
    faults = [fault for fault in caught.value.faults if isinstance(fault, Fault)]
    assert len(faults) == len(caught.value.faults)
    assert {fault.source for fault in faults} == {str(path)}
    return faults


def test_azure_2023_has_its_published_totals(azure: Trace) -> None:
    assert len(azure) == azure.rows == 19_366
    assert int(azure.prompt.sum()) == 22_361_870
    assert int(azure.output.sum()) == 4_088_665
    # Stamps have 7 decimals, so the duration is exact to rounding.
    assert azure.duration == pytest.approx(3501.721937, abs=1e-9)
    assert azure.rate == pytest.approx(5.530422, abs=5e-7)
    assert azure.notes == ()


def test_azure_2023_has_its_known_burstiness(azure: Trace) -> None:
    # The reference figures have 4 and 3 decimals.
    assert gap_cv(azure.arrival) == pytest.approx(1.0942, abs=5e-5)
    dispersion = [dispersion_of_counts(azure.arrival, window) for window in (1.0, 10.0, 60.0)]
    assert dispersion == pytest.approx([1.386, 3.868, 16.411], abs=5e-4)


def test_azure_2023_is_the_original_file_with_its_attribution(azure: Trace) -> None:
    assert azure.sha256 == hashlib.sha256(AZURE_2023.read_bytes()).hexdigest()
    assert "Splitwise" in azure.attribution
    assert "CC BY 4.0" in azure.attribution
    assert azure.name == "azure_conv_2023"


def test_a_file_without_header_is_read_by_position() -> None:
    trace = read_azure(TRACES / "azure_no_header_crlf_no_final_newline.csv")
    assert trace.prompt.tolist() == [374, 396, 879]
    assert trace.output.tolist() == [44, 109, 55]
    # Differences of the stamps in the file; float64 keeps them to well below a nanosecond.
    assert trace.arrival.tolist() == pytest.approx([0.0, 4.314579, 4.541877], abs=1e-12)


def test_byte_order_mark_zone_missing_fraction_and_blank_line() -> None:
    trace = read_azure(TRACES / "azure_2024_bom_mixed_fraction_blank_line.csv")
    assert trace.rows == 2
    assert trace.prompt.tolist() == [584, 1452]
    assert trace.arrival.tolist() == pytest.approx([0.0, 0.001163], abs=1e-12)
    assert trace.out_of_order == 1
    assert trace.notes == (
        f"{Path(trace.source).name}: 1 row was earlier than the row before; sorted by time",
    )


def test_bad_rows_are_dropped_with_line_and_reason() -> None:
    trace = read_azure(TRACES / "azure_out_of_order_zero_bad_rows.csv")
    assert trace.rows == 6
    assert trace.prompt.tolist() == [374, 396]
    assert trace.out_of_order == 1
    assert [(row.number, row.reason) for row in trace.dropped] == [
        (4, "GeneratedTokens is 0"),
        (5, "ContextTokens is 0"),
        (6, "GeneratedTokens is not a whole number of tokens"),
        (7, "too few columns"),
    ]
    assert len(trace.notes) == 5
    assert "dropped 1 of 6 rows: GeneratedTokens is 0 (line 4)" in trace.notes[0]


def test_many_bad_rows_make_one_note(tmp_path: Path) -> None:
    good = "2023-11-16 18:15:46.68,374,44\n"
    trace = read_azure(written(tmp_path, HEADER + good + "2023-11-16 18:15:47,1,0\n" * 1000))
    assert trace.notes == (
        "trace.csv: dropped 1000 of 1001 rows: GeneratedTokens is 0 (lines 3, 4, 5, 6, 7, ...)",
    )


def test_columns_go_by_name(tmp_path: Path) -> None:
    rows = "2024-10-15T12:00:00.269Z,0,770,491\n2024-10-15T12:00:05.819Z,1,949,126\n"
    trace = read_azure(written(tmp_path, "TIMESTAMP,NumImages,ContextTokens,GeneratedTokens\n" + rows))
    assert trace.prompt.tolist() == [770, 949]
    assert trace.ignored_columns == ("NumImages",)
    assert trace.notes == ("trace.csv: ignored columns NumImages",)


def test_zones_are_put_on_one_clock(tmp_path: Path) -> None:
    rows = "2024-05-12 00:00:00+00:00,1,1\n2024-05-12 02:00:01+02:00,2,2\n2024-05-11T19:00:02-0500,3,3\n"
    trace = read_azure(written(tmp_path, HEADER + rows))
    assert trace.arrival.tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize("stamp", ["", "today", "NaT", "2023-02-30 00:00:00", "12:00:00", "5", "2023-11-16"])
def test_a_bad_time_is_dropped(tmp_path: Path, stamp: str) -> None:
    trace = read_azure(written(tmp_path, f"{HEADER}{stamp},1,1\n2023-11-16 18:15:46,2,2\n"))
    assert [(row.number, row.reason) for row in trace.dropped] == [(2, "TIMESTAMP is not a date and time")]


@pytest.mark.parametrize("number", ["-5", "1.5", "1_000", "", "9" * 30, "²", "nan"])
def test_a_bad_number_is_dropped(tmp_path: Path, number: str) -> None:
    trace = read_azure(
        written(tmp_path, f"{HEADER}2023-11-16 18:15:46,{number},1\n2023-11-16 18:15:46,2,2\n")
    )
    reasons = [(row.number, row.reason) for row in trace.dropped]
    assert reasons == [(2, "ContextTokens is not a whole number of tokens")]


def test_missing_file(tmp_path: Path) -> None:
    (fault,) = faults_of(tmp_path / "nowhere.csv")
    assert "No such file" in fault.what


@pytest.mark.parametrize("text", ["", "\n\r\n  \n", b"\xef\xbb\xbf"])
def test_empty_file(tmp_path: Path, text: str | bytes) -> None:
    (fault,) = faults_of(written(tmp_path, text))
    assert fault.what == "is empty"


def test_binary_file(tmp_path: Path) -> None:
    (fault,) = faults_of(written(tmp_path, b"PK\x03\x04\xff\xfe"))
    assert "is not text" in fault.what


def test_git_lfs_pointer() -> None:
    (fault,) = faults_of(TRACES / "git_lfs_pointer.csv")
    assert "Git LFS pointer" in fault.what
    assert (fault.line, fault.column) == (1, 1)


def test_wrong_header_names_what_was_found_and_meant(tmp_path: Path) -> None:
    faults = faults_of(written(tmp_path, "\nTimestamp,ContextToken,Model\n5,1,gpt\n"))
    assert [fault.key for fault in faults] == ["TIMESTAMP", "ContextTokens", "GeneratedTokens"]
    assert [fault.suggestion for fault in faults] == ["Timestamp", "ContextToken", ""]
    assert all(fault.line == 2 and "Timestamp, ContextToken, Model" in fault.what for fault in faults)
    assert all("TIMESTAMP, ContextTokens, GeneratedTokens" in fault.expected for fault in faults)


def test_json_lines_are_told_from_csv() -> None:
    (fault,) = faults_of(TRACES / "mooncake_arxiv_mixed_93.jsonl")
    assert "JSON Lines" in fault.what
    assert "mooncake" in fault.what


def test_a_gzipped_file_is_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv.gz"
    path.write_bytes(gzip.compress(f"{HEADER}2023-11-16 18:15:46,3,1\n".encode()))
    trace = read_azure(path)
    assert trace.prompt.tolist() == [3]
    assert trace.name == "trace"
    assert trace.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_no_usable_row_shows_the_first_reasons(tmp_path: Path) -> None:
    faults = faults_of(written(tmp_path, HEADER + "2023-11-16 18:15:46,0,1\n" * 9))
    assert faults[0].what == "no usable row among 9"
    assert [fault.line for fault in faults[1:]] == [2, 3, 4, 5, 6]


def test_header_only(tmp_path: Path) -> None:
    (fault,) = faults_of(written(tmp_path, HEADER))
    assert fault.what == "no usable row among 0"


def test_one_request_has_no_rate(tmp_path: Path) -> None:
    trace = read_azure(written(tmp_path, HEADER + "2023-11-16 18:15:46,3,1\n"))
    assert trace.duration == 0
    assert np.isnan(trace.rate)
