"""Where a value stands in JSON text, found only once something is wrong with it."""

from __future__ import annotations

import json

KeyPath = tuple[str | int, ...]
"""Keys and list indices from a JSON value to one inside it."""

_DECODER = json.JSONDecoder()
_BLANK = " \t\r\n"


def place_at(text: str, offset: int) -> tuple[int, int]:
    """Line and column of a character, both from 1."""
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


def offset_of(text: str, start: int, path: KeyPath) -> int:
    """Offset of the value at this path below the value that begins at `start`.

    The text is sound JSON; where the path leads to nothing, the nearest value around it is meant.
    """
    for key in path:
        inside = _member(text, start, key) if text[start] == "{" else _item(text, start, key)
        if inside is None:
            return start
        start = inside
    return start


def skip_blanks(text: str, offset: int) -> int:
    """Offset of the next character that is not white space, or the text's length."""
    while offset < len(text) and text[offset] in _BLANK:
        offset += 1
    return offset


def _member(text: str, start: int, key: str | int) -> int | None:
    """Offset of the value of a key of the object at `start`, of the last where it is stated twice."""
    found = None
    offset = skip_blanks(text, start + 1)
    while text[offset] == '"':
        name, offset = _DECODER.raw_decode(text, offset)
        value = skip_blanks(text, skip_blanks(text, offset) + 1)
        if name == key:
            found = value
        offset = _after(text, value)
    return found


def _item(text: str, start: int, index: str | int) -> int | None:
    """Offset of an item of the list at `start`."""
    if text[start] != "[" or not isinstance(index, int):
        return None
    offset = skip_blanks(text, start + 1)
    for _ in range(index):
        if text[offset] == "]":
            return None
        offset = _after(text, offset)
    return None if text[offset] == "]" else offset


def _after(text: str, offset: int) -> int:
    """Offset of what follows a value and its comma, or of the bracket that ends its list or object."""
    end = skip_blanks(text, _DECODER.raw_decode(text, offset)[1])
    return skip_blanks(text, end + 1) if text[end] == "," else end
