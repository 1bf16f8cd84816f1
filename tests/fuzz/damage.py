"""Damage that files suffer: in storage and transport, in editors and other programs, and by hand."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from typing import Any

import yaml
from hypothesis import strategies as st

from tests.benchmark.damage import damaged

ODD_VALUES = (
    *("1E400B", "1e400", "-1e400", "1e308", "-0.0", "nan", ".nan", "NaN", "inf", "-.inf", "Infinity", "-1"),
    *(
        "9" * 60,
        "9" * 400,
        "-" + "9" * 400,
        "0x" + "f" * 300,
        "9223372036854775808",
        "1e999999",
        "0o17",
        "1_000",
        "0",
    ),
    *("1e300s", "1e-300s", "1e999/s", "1e300/s", "1e300GiB", "0.0000001ns", "100000000000000%", "-5%"),
    *(
        "true",
        "~",
        "",
        "[]",
        "{}",
        "[[]]",
        "{a: 1}",
        "*a",
        "&a x",
        "!!python/object:os.system x",
        "!!set {a}",
    ),
    *(
        '"\\ud800"',
        "'",
        '"',
        "\t",
        "\u2028",
        "\x85",
        "é",
        "\U0001f600",
        "a" * 5000,
        "../../etc/passwd",
        "/",
        ".",
    ),
    *("2026-02-30", "12:30", "on", "<<", "%", "@", "`", "|", ">", "- ", ": ", "#"),
)
"""Where a value stood: too large, not finite, of another type, or what YAML and JSON read in another way."""

Damage = Callable[[st.DrawFn, bytes], bytes]


def _truncated(draw: st.DrawFn, content: bytes) -> bytes:
    return content[: draw(st.integers(0, len(content)))]


def _flipped(draw: st.DrawFn, content: bytes) -> bytes:
    hurt = bytearray(content)
    for _ in range(draw(st.integers(1, 4))):
        hurt[draw(st.integers(0, len(hurt) - 1))] ^= 1 << draw(st.integers(0, 7))
    return bytes(hurt)


def _overwritten(draw: st.DrawFn, content: bytes) -> bytes:
    """Some bytes replaced by any others: text of another encoding, NULs of a sparse file, a cut-off character."""
    start = draw(st.integers(0, len(content)))
    what = draw(
        st.sampled_from(
            [b"\x00", b"\x00" * 64, b"\xff\xfe", b"\xe9", b"\xc3", b"\xed\xa0\x80", b"\x1f\x8b", b"\x1b"]
        )
    )
    return content[:start] + what + content[start + draw(st.integers(0, 3)) :]


def _encoded(draw: st.DrawFn, content: bytes) -> bytes:
    encoding = draw(
        st.sampled_from(["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-8-sig", "utf-7", "cp037"])
    )
    return content.decode("utf-8").encode(encoding, "replace")


def _marked(draw: st.DrawFn, content: bytes) -> bytes:
    """A byte order mark where none belongs, or two."""
    return (
        draw(st.sampled_from([b"\xef\xbb\xbf\xef\xbb\xbf", b"\xff\xfe", b"\x00", b"\n\xef\xbb\xbf"]))
        + content
    )


def _packed(draw: st.DrawFn, content: bytes) -> bytes:
    packed = gzip.compress(content, mtime=0)
    return draw(
        st.sampled_from([packed, packed[: len(packed) // 2], packed[:10], gzip.compress(packed, mtime=0)])
    )


def _other_line_ends(draw: st.DrawFn, content: bytes) -> bytes:
    return content.replace(
        b"\n", draw(st.sampled_from([b"\r\n", b"\r", b"", b"\n\n", b"\n\t", b"\n ", b"\x0b"]))
    )


def _lines_moved(draw: st.DrawFn, content: bytes) -> bytes:
    """Lines doubled, dropped, swapped or moved in: in YAML a duplicate key or another nesting."""
    lines = content.split(b"\n")
    for _ in range(draw(st.integers(1, 3))):
        one, two = (draw(st.integers(0, len(lines) - 1)) for _ in range(2))
        how = draw(st.sampled_from(["double", "drop", "swap", "indent"]))
        if how == "double":
            lines.insert(two, lines[one])
        elif how == "drop" and len(lines) > 1:
            del lines[one]
        elif how == "swap":
            lines[one], lines[two] = lines[two], lines[one]
        else:
            lines[one] = b"  " + lines[one]
    return b"\n".join(lines)


def _misspelt(draw: st.DrawFn, content: bytes) -> bytes:
    """One word with a letter lost, doubled or in the other case."""
    words = list(re.finditer(rb"[A-Za-z_]{2,}", content))
    if not words:
        return b"x" + content
    word = draw(st.sampled_from(words))
    place = draw(st.integers(word.start(), word.end() - 1))
    letter = content[place : place + 1]
    return (
        content[:place] + draw(st.sampled_from([b"", letter * 2, letter.swapcase()])) + content[place + 1 :]
    )


def _odd_values(draw: st.DrawFn, content: bytes) -> bytes:
    """One to three values, as far as they look like one, replaced by odd ones."""
    for _ in range(draw(st.integers(1, 3))):
        values = list(re.finditer(rb"(?<=[\s:,\[])[^\s:,\[\]{}]+(?=[\s,\]}]|$)", content))
        if not values:
            break
        value = draw(st.sampled_from(values))
        odd = draw(st.sampled_from(ODD_VALUES)).encode("utf-8", "surrogatepass")
        content = content[: value.start()] + odd + content[value.end() :]
    return content


def _nested(draw: st.DrawFn, content: bytes) -> bytes:
    depth = draw(st.sampled_from([63, 65, 1000, 100_000]))
    opening, closing = draw(
        st.sampled_from([(b"[", b"]"), (b'{"a":', b"}"), (b"{a: ", b"}"), (b"- ", b""), (b"(", b")")])
    )
    place = draw(
        st.sampled_from([0, len(content), *(found.end() for found in re.finditer(rb": ?", content))])
    )
    return content[:place] + opening * depth + b"1" + closing * depth + content[place:]


def _binary(draw: st.DrawFn, content: bytes) -> bytes:  # noqa: ARG001
    return draw(
        st.one_of(
            st.binary(max_size=200),
            st.just(b""),
            st.sampled_from([b"\n", b" ", b"\x00", b"null", b"[]", b"{}"]),
        )
    )


DAMAGES: tuple[Damage, ...] = (
    _truncated,
    _flipped,
    _overwritten,
    _encoded,
    _marked,
    _packed,
    _other_line_ends,
    _lines_moved,
    _misspelt,
    _odd_values,
    _odd_values,
    _nested,
    _binary,
)


def _json_values(draw: st.DrawFn, content: bytes) -> bytes:
    """Values at any depth of JSON or JSON Lines replaced, removed or repeated."""
    try:
        values, one = [json.loads(content)], True
    except ValueError:
        values, one = [json.loads(line) for line in content.splitlines() if line.strip()], False
    hurt = draw(damaged(values))
    return json.dumps(hurt[0] if one and hurt else hurt).encode() if one else _json_lines(hurt)


def _json_lines(values: list[Any]) -> bytes:
    return "\n".join(json.dumps(value) for value in values).encode()


def _yaml_values(draw: st.DrawFn, content: bytes) -> bytes:
    """The same of YAML, whose flow style JSON is."""
    (hurt,) = draw(damaged([yaml.safe_load(content)])) or [None]
    return json.dumps(hurt).encode()


STRUCTURES: dict[str, Damage] = {".json": _json_values, ".jsonl": _json_values, ".yaml": _yaml_values}
"""Damage that leaves the syntax whole, by a file's ending."""


@st.composite
def damaged_content(draw: st.DrawFn, content: bytes, ending: str) -> bytes:
    """A file's bytes after one damage, in a tenth of the draws after two."""
    structure = STRUCTURES.get(ending)
    kinds = DAMAGES if structure is None else (*DAMAGES, *(structure,) * 5)
    hurt = draw(st.sampled_from(kinds))(draw, content)
    if hurt and draw(st.integers(0, 9)) == 0:
        again = draw(st.sampled_from([_truncated, _flipped, _overwritten, _lines_moved, _odd_values]))
        hurt = again(draw, hurt)
    return hurt
