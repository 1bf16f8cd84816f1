from __future__ import annotations

from capsim.report.table import WIDTH, paragraph, table, terms


def test_numbers_stand_on_the_right_under_their_titles() -> None:
    lines = table(("name", "rate\nper s", "note"), "lrl", [("a", "1.5", "x"), ("long", "12.25", "")])
    assert lines == [
        "         rate",
        "  name  per s  note",
        "  ----  -----  ----",
        "  a       1.5  x",
        "  long  12.25",
    ]


def test_a_last_column_of_prose_wraps() -> None:
    lines = table(("part", "note"), "ll", [("weights", "word " * 60)])
    assert max(map(len, lines)) <= WIDTH
    assert lines[2].startswith("  weights  word")
    assert all(line.startswith("           word") for line in lines[3:])


def test_columns_stand_closer_where_they_are_too_wide() -> None:
    cells = ["1234567"] * 12
    lines = table(["title"] * 12, "r" * 12, [cells])
    assert lines[-1] == "  " + " ".join(cells)
    assert len(lines[-1]) <= WIDTH


def test_terms_and_paragraphs_wrap_behind_their_marks() -> None:
    assert terms([("a", "x"), ("term", "y")]) == ["  a     x", "  term  y"]
    long = terms([("term", "word " * 60)])
    assert max(map(len, long)) <= WIDTH
    assert all(line.startswith("        word") for line in long[1:])
    wrapped = paragraph("word " * 60, "-", depth=2)
    assert max(map(len, wrapped)) <= WIDTH
    assert wrapped[0].startswith("    - word")
    assert all(line.startswith("      word") for line in wrapped[1:])
