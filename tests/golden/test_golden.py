from __future__ import annotations

import json
from typing import Any

import pytest

from tests.golden.golden import golden_path, names, short_plan


def close(found: Any, expected: Any, place: str = "") -> None:
    """Equal to 1e-6: processors differ in the last digit of a logarithm, and a run adds up thousands of them."""
    if isinstance(expected, dict):
        assert list(found) == list(expected), place
        for key, value in expected.items():
            close(found[key], value, f"{place}.{key}")
    elif isinstance(expected, list):
        assert len(found) == len(expected), place
        for i, value in enumerate(expected):
            close(found[i], value, f"{place}[{i}]")
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=1e-6), place
    elif place.endswith("overloaded"):
        assert bool(found) == bool(expected), place  # the sentence holds a rounded figure
    else:
        assert found == expected, place


@pytest.mark.parametrize("name", names())
def test_a_short_plan_is_as_it_was(name: str) -> None:
    found = json.loads(json.dumps(short_plan(name)))
    close(found, json.loads(golden_path(name).read_text()))
