"""The text of a profile's file: made, checked and written."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from capsim.cost import Profile, load_profile
from capsim.errors import BadInput, Fault

_DIGITS = 6  # significant digits of a figure: far finer than any timer, and stable in a diff


def rounded(value: Any) -> Any:
    """A number, or a list of them at any depth, to the significant digits that a file keeps."""
    if isinstance(value, (list, tuple)):
        return [rounded(item) for item in value]
    if isinstance(value, (float, np.floating)) and math.isfinite(value):
        return float(f"{value:.{_DIGITS}g}")
    return value


def profile_text(members: Mapping[str, Any]) -> str:
    """The text of a profile: JSON with a line for each table row."""
    return _json(dict(members)) + "\n"


def checked_profile(text: str) -> Profile:
    """The profile as capsim will read it.

    Raises:
        BadInput: the text breaks a rule of the format.
    """
    with TemporaryDirectory() as folder:
        path = Path(folder) / "draft.json"
        path.write_text(text, encoding="utf-8")
        return load_profile(path)


def write_profile(path: Path, text: str) -> Profile:
    """Write the file, once it is known that capsim can read it, and return what capsim read.

    Raises:
        BadInput: the text breaks a rule of the format, or the file cannot be written.
    """
    profile = checked_profile(text)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise BadInput(Fault(str(path), f"cannot be written: {error.strerror or error}")) from error
    return profile


def _json(value: Any, indent: str = "") -> str:
    """JSON text in which a list of plain values is one line."""
    inner = indent + " "
    if isinstance(value, dict) and value:
        items = [f"{inner}{json.dumps(key)}: {_json(item, inner)}" for key, item in value.items()]
        return "{\n" + ",\n".join(items) + f"\n{indent}}}"
    if isinstance(value, list) and any(isinstance(item, (dict, list, str)) for item in value):
        return "[\n" + ",\n".join(inner + _json(item, inner) for item in value) + f"\n{indent}]"
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
