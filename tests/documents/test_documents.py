from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capsim import documents
from capsim.documents import parse, parse_value
from capsim.errors import BadInput, Fault

BAD = {
    "empty": ("", "f.yaml:1:1: is empty, expected a mapping of keys to values"),
    "comment only": ("# nothing\n", "f.yaml:1:1: is empty, expected a mapping of keys to values"),
    "list": ("\n- a\n", "f.yaml:2:1: the top level is a list, expected a mapping of keys to values"),
    "scalar": ("5", "f.yaml:1:1: the top level is a single value, expected a mapping of keys to values"),
    "tab": ("a:\n\tb: 1\n", "f.yaml:2:1: a tab where YAML needs spaces, expected spaces"),
    "colon": ("a: b: c\n", "f.yaml:1:5: not valid YAML: mapping values are not allowed here"),
    "open bracket": (
        "a: [1,2",
        "f.yaml:1:8: not valid YAML while parsing a flow sequence: expected ',' or ']', but got '<stream end>'",
    ),
    "open quote": (
        "a: 'x",
        "f.yaml:1:6: not valid YAML while scanning a quoted scalar: found unexpected end of stream",
    ),
    "duplicate": (
        "a: 1\nb:\n  c: 1\n  c: 2\n",
        "f.yaml:4:3: b.c: duplicate key, first stated at 3:3, expected each key once",
    ),
    "alias": ("a: &x 1\nb: *x\n", "f.yaml:2:4: alias '*x' is not supported, expected the value itself"),
    "tag": (
        "a: !!python/object/apply:os.getcwd []\n",
        "f.yaml:1:4: a: tag 'tag:yaml.org,2002:python/object/apply:os.getcwd' is not supported, expected plain YAML",
    ),
    "number as key": ("1: a\n", "f.yaml:1:1: key '1' is not text, expected a name"),
    "list as key": ("? [a]\n: 1\n", "f.yaml:1:3: a key is not text, expected a name"),
    "control character": ("a: b\nc: \x01\n", "f.yaml:2:4: character U+0001 is not allowed in a text file"),
    "two documents": (
        "a: 1\n---\nb: 2\n",
        "f.yaml:2:1: a second document begins here, expected one document in a file",
    ),
    "bottomless": ("a: " + "[" * 500, "f.yaml:1:67: nested deeper than 64 levels"),
    "bad integer": ("a: !!int foo\n", "f.yaml:1:4: a: 'foo' cannot be read as int"),
    "half a surrogate pair": ('a: "\\ud83d"\n', "f.yaml:1:4: a: '\\ud83d' cannot be read as str"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_text_is_refused_at_its_place(case: str) -> None:
    text, message = BAD[case]
    with pytest.raises(BadInput) as refusal:
        parse(text, "f.yaml")
    assert str(refusal.value) == message


def test_an_absurdly_long_integer_is_refused_and_quoted_short() -> None:
    with pytest.raises(BadInput) as refusal:
        parse("a: " + "9" * 10000, "f.yaml")
    assert str(refusal.value) == f"f.yaml:1:4: a: '{'9' * 37}...' cannot be read as int"


# YAML 1.1, which PyYAML reads by itself, makes booleans, base-60 integers, octals or dates of many of these.
CORE_SCHEMA = [
    ("1e3", 1000.0),
    ("1.5e3", 1500.0),
    ("1E-3", 0.001),
    ("-.5", -0.5),
    ("12.", 12.0),
    ("+7", 7),
    ("010", 10),
    ("0o17", 15),
    ("0x1F", 31),
    ("1_000", "1_000"),
    ("12:30", "12:30"),
    ("1:30.5", "1:30.5"),
    ("on", "on"),
    ("off", "off"),
    ("yes", "yes"),
    ("No", "No"),
    ("y", "y"),
    ("true", True),
    ("False", False),
    ("2024-01-01", "2024-01-01"),
    ("2024-01-01 10:00:00", "2024-01-01 10:00:00"),
    ("0.19.0", "0.19.0"),
    ("~", None),
    ("null", None),
    ("", None),
    ("<<", "<<"),
    ("=", "="),
    (".inf", math.inf),
    ("-.INF", -math.inf),
    ("1e", "1e"),
    (".", "."),
    ("95%", "95%"),
]


@pytest.mark.parametrize(("text", "value"), CORE_SCHEMA)
def test_scalars_follow_the_core_schema(text: str, value: Any) -> None:
    found = parse(f"a: {text}\n", "f.yaml").data["a"]
    assert found == value
    assert type(found) is type(value)


def test_not_a_number_is_read() -> None:
    assert math.isnan(parse("a: .nan", "f.yaml").data["a"])


def test_keys_and_values_know_their_places() -> None:
    document = parse("# comment\na: 1\nb:\n  - c: x\n    d: [1, 2]\n", "f.yaml")
    assert document.data == {"a": 1, "b": [{"c": "x", "d": [1, 2]}]}
    assert document.place(("a",), of_key=True) == (2, 1)
    assert document.place(("a",)) == (2, 4)
    assert document.place(("b", 0, "d"), of_key=True) == (5, 5)
    assert document.place(("b", 0, "d", 1)) == (5, 12)
    assert document.place(("b", 0, "missing")) == (4, 5)
    assert document.place(("missing",)) == (2, 1)


def test_every_fault_of_content_is_reported_at_once() -> None:
    with pytest.raises(BadInput) as refusal:
        parse("a: 1\na: 2\nb: !x 3\n", "f.yaml")
    assert str(refusal.value).splitlines() == [
        "f.yaml:2:1: a: duplicate key, first stated at 1:1, expected each key once",
        "f.yaml:3:4: b: tag '!x' is not supported, expected plain YAML",
    ]


def test_faults_of_content_can_be_collected_and_the_first_of_two_keys_is_kept() -> None:
    faults: list[Fault] = []
    document = parse("a: 1\na: 2\nb: 3\n", "f.yaml", faults=faults)
    assert document.data == {"a": 1, "b": 3}
    assert [fault.key for fault in faults] == ["a"]


def test_json_may_be_indented_with_tabs_and_escapes_beyond_the_basic_plane() -> None:
    document = parse('{\n\t"a": "\\ud83d\\ude00 \\/",\n\t"b": 1e3\n}', "f.json")
    assert document.data == {"a": "😀 /", "b": 1000.0}
    assert document.place(("b",)) == (3, 7)


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(
        st.characters(min_codepoint=32, max_codepoint=126) | st.sampled_from("äß漢😀\n\t"), max_size=12
    ),
    lambda children: (
        st.lists(children, max_size=3) | st.dictionaries(st.text("abc", min_size=1), children, max_size=3)
    ),
    max_leaves=10,
)


@given(JSON_VALUES, st.sampled_from([None, 2]))
def test_json_text_reads_as_the_json_module_reads_it(value: Any, indent: int | None) -> None:
    assert parse(json.dumps({"key": value}, indent=indent), "f.json").data == {"key": value}


def test_files_are_named_and_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: 1\r\nb: 2\r\n")
    document = documents.load(path)
    assert document.source == str(path)
    assert document.data == {"a": 1, "b": 2}
    assert document.place(("b",)) == (2, 4)


def test_a_file_that_is_not_utf8_is_refused_at_the_byte(tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.write_bytes("a: ok\nb: für".encode("latin-1"))
    with pytest.raises(BadInput) as refusal:
        documents.load(path)
    assert str(refusal.value) == f"{path}:2:5: byte 0xfc is not UTF-8, expected a UTF-8 text file"


@pytest.mark.parametrize(
    ("name", "why"), [("missing.yaml", "No such file or directory"), ("", "Is a directory")]
)
def test_a_file_that_cannot_be_read_says_why(tmp_path: Path, name: str, why: str) -> None:
    with pytest.raises(BadInput) as refusal:
        documents.load(tmp_path / name)
    assert str(refusal.value) == f"{tmp_path / name}: cannot be read: {why}"


@pytest.mark.parametrize(("text", "value"), [("1e3", 1000.0), ("on", "on"), ("[a, 1]", ["a", 1]), ("", None)])
def test_single_values_are_read_alike(text: str, value: Any) -> None:
    assert parse_value(text, "--set a") == value


def test_a_bad_single_value_names_its_flag_without_a_line() -> None:
    with pytest.raises(BadInput) as refusal:
        parse_value("{a: 1, a: 2}", "--set x")
    assert str(refusal.value) == "--set x: a: duplicate key, first stated at 1:2, expected each key once"


def test_large_json_is_read_fast_and_knows_its_places_all_the_same() -> None:
    """The figures of a profile: the slow reader would need seconds for them, and is asked only for a place."""
    text = json.dumps(
        {"name": "x", "rows": [[i / 7 for i in range(100)] for _ in range(100)], "n": {"k": 1e-3}}
    )
    text = text.replace('"n"', '\n"n"')
    assert len(text) > documents.LARGE
    found = documents.parse(text, "large.json")
    assert found.data == json.loads(text)
    assert found.place(("n", "k")) == (2, 12)
    assert str(found.fault(("n", "k"), "is odd")) == "large.json:2:12: n.k: is odd"


@pytest.mark.parametrize(
    ("tail", "message"),
    [
        ('"a": 1, "a": 2}', "duplicate key"),
        ('"a": 1', "not valid"),
        ('"a": {"b": NaN}}', None),
    ],
)
def test_large_json_with_a_fault_is_read_with_care(tail: str, message: str | None) -> None:
    text = '{"rows": [' + ", ".join("0.123456789" for _ in range(6000)) + "], " + tail
    assert len(text) > documents.LARGE
    if message is None:
        assert documents.parse(text, "large.json").data["a"] == {"b": "NaN"}
        return
    with pytest.raises(BadInput, match=message):
        documents.parse(text, "large.json")
