"""The reference of profiles names every field that the shipped ones have, and none that the reader refuses."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from capsim.catalog.data import data_names, data_path
from tests.docs.page import ROOT
from tests.docs.profile_format import profile_format

PAGE = ROOT / "docs" / "reference" / "profile.md"


def fields(value: Any, path: str = "") -> Iterator[str]:
    """Paths of a profile's values; a list of objects is ``[]``."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from fields(part, f"{path}.{key}".lstrip("."))
        return
    yield path.removesuffix("[]")
    if isinstance(value, list) and value and isinstance(value[0], dict):
        for part in value:
            yield from fields(part, f"{path}[]")


def described() -> set[str]:
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row.split(" | ")[0])}


def test_every_field_is_described() -> None:
    """Among the shipped profiles are some with aligned counts, mixed attention, skew and held-out shapes."""
    found: set[str] = set()
    for name in data_names("profiles", (".json",)):
        found |= set(fields(json.loads(Path(data_path("profiles", name)).read_text(encoding="utf-8"))))
    lists = {path.partition("[]")[0] for path in found if "[]" in path}
    assert found - lists - described() == set()


def test_no_other_field_is_described() -> None:
    """The example in the reader's docstring, which the generated part shows, has every key that there may be."""
    text = "\n".join(profile_format())
    keys = {part.removesuffix("[]") for path in described() for part in path.split(".")}
    assert {key for key in keys if f'"{key}"' not in text} == set()
