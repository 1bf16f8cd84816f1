from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from calibrate.table import hole_text, holes, pivot, read_table
from capsim.errors import BadInput

REQUIRED = ("layer", "tokens", "time_us")


def _write(folder: Path, text: str) -> Path:
    path = folder / "table.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_columns_of_each_kind(tmp_path: Path) -> None:
    table = read_table(
        _write(tmp_path, "layer,tokens,time_us,more\n o_proj ,1,2.5,x\no_proj,8,1e1,y\n"), REQUIRED
    )
    assert len(table) == 2
    assert table.texts("layer").tolist() == ["o_proj", "o_proj"]
    assert table.counts("tokens").tolist() == [1, 8]
    assert table.numbers("time_us").tolist() == [2.5, 10.0]
    assert table.where(table.counts("tokens") > 1).lines.tolist() == [3]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("layer,tokens,time_us\n", "has a header and no rows"),
        ("layer,tokens,time_us\n" + "a" * 200_000, "table.csv:2:1: is no CSV: field larger than field limit"),
        ("layer,token,time_us\na,1,2\n", "the column tokens is missing (there is token)"),
        ("layer,tokens,tokens,time_us\na,1,1,2\n", "this column stands twice"),
        (
            "layer,tokens,time_us\na,1,2\na,2\n",
            "table.csv:3:1: 2 cells where the header has 3: the file may be cut off",
        ),
        ("layer,tokens,time_us\na,1,2\na,2,3.", "table.csv:3:1: the last line has no end"),
        ("version https://git-lfs.github.com/spec/v1\noid sha256:00\n", "is a Git LFS pointer"),
    ],
)
def test_damaged_files(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(BadInput) as refused:
        read_table(_write(tmp_path, text), REQUIRED)
    assert said in str(refused.value)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be read"):
        read_table(tmp_path / "missing.csv", REQUIRED)
    binary = tmp_path / "binary.csv"
    binary.write_bytes(b"layer\n\xff\n")
    with pytest.raises(BadInput, match=r":2:1: byte 0xff is not UTF-8"):
        read_table(binary, REQUIRED)


@pytest.mark.parametrize("cell", ["", "-1", "nan", "inf", "2,5", "twelve"])
def test_every_cell_that_is_no_number_is_listed(tmp_path: Path, cell: str) -> None:
    path = _write(tmp_path, f'layer,tokens,time_us\na,1,2\na,2,"{cell}"\na,3,"{cell}"\n')
    with pytest.raises(BadInput) as refused:
        read_table(path, REQUIRED).numbers("time_us")
    assert [fault.line for fault in refused.value.faults if not isinstance(fault, str)] == [3, 4]


def test_many_faults_are_counted(tmp_path: Path) -> None:
    path = _write(tmp_path, "layer,tokens,time_us\n" + "a,1.5,2\n" * 50)
    with pytest.raises(BadInput, match="30 more of these in column tokens"):
        read_table(path, REQUIRED).counts("tokens")


def test_mixed_values_are_refused_where_one_is_needed(tmp_path: Path) -> None:
    path = _write(tmp_path, "layer,tokens,time_us,dtype\na,1,2,bf16\na,2,3,bf16\na,3,4,fp8\n")
    table = read_table(path, REQUIRED)
    with pytest.raises(BadInput, match=r":4:4: dtype: 'fp8' stands beside 'bf16'"):
        table.only("dtype")
    assert table.where(table.texts("dtype") == "bf16").only("dtype", "bf16") == "bf16"
    with pytest.raises(BadInput, match=r":2:4: dtype: 'bf16', expected fp8"):
        table.only("dtype", "fp8")
    with pytest.raises(BadInput, match="no row is left"):
        table.where(table.texts("dtype") == "none").only("dtype")


def test_a_grid_takes_the_median_of_repeats_and_shows_its_holes() -> None:
    axes, grid = pivot({"new": [16, 16, 16, 16, 32], "past": [0, 0, 0, 8, 0]}, [1.0, 9.0, 2.0, 4.0, 5.0])
    assert axes == {"new": (16, 32), "past": (0, 8)}
    np.testing.assert_array_equal(grid, [[2.0, 4.0], [5.0, math.nan]])
    found = holes(axes, grid)
    assert found == [{"new": 32, "past": 8}]
    assert hole_text(found * 5) == "new 32/past 8, new 32/past 8, new 32/past 8 and 2 more"


def test_the_median_of_an_even_number_of_repeats() -> None:
    assert pivot({"count": [1, 1]}, [2.0, 4.0])[1].tolist() == [3.0]
