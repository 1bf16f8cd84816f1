"""Fields that the reference of results lists, against results themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from capsim.plan.sweep import make_sweep
from capsim.plan.sweep_axis import parse_axis
from capsim.plan.sweep_result import sweep_result
from capsim.report.explanation import plan_explanation
from capsim.scenario import load
from tests.docs.page import ROOT
from tests.report.results import given_fleet

PAGE = (ROOT / "docs" / "reference" / "result.md").read_text(encoding="utf-8")
SMALL = Path(__file__).parents[1] / "plan" / "small.yaml"
SHORT = ["plan.duration=5s", "plan.replications=2"]
HEADING = {
    "schema",
    "schema_version",
    "capsim_version",
    "scenario",
    "seed",
    "configuration",
    "fingerprint",
    "of",
}
"""Said in a sentence."""


def listed(section: str) -> set[str]:
    """Paths at the head of a section's items, before what is said of them."""
    text = PAGE.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    items = re.findall(r"^ *- (.*?)(?=^ *- |^\S(?!-)|\Z)", text, flags=re.MULTILINE | re.DOTALL)
    found = {path for item in items for path in re.findall(r"`([a-z_\[\].]+)`", item)}
    return {path for path in found if "." in path or path in ("one_less", "gates", "points")}


def paths(value: Any, *, whole: set[str], path: str = "") -> Iterator[str]:
    """Paths of a result's fields; of those in `whole` nothing further."""
    if path in whole or not isinstance(value, (dict, list)):
        yield path
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from paths(part, whole=whole, path=f"{path}.{key}".lstrip("."))
    else:
        for part in value:
            if isinstance(part, dict):
                yield from paths(part, whole=whole, path=f"{path}[]")
            else:
                yield path


def test_every_field_of_a_sweep_is_listed() -> None:
    axes = [parse_axis("engine.num_gpu_blocks=100,4000")]
    result = sweep_result(make_sweep(lambda changes: load(SMALL, [*SHORT, *changes]), axes))
    body = {key: part for key, part in result.items() if key not in HEADING}
    whole = {"points[].values", "points[].point"}
    assert set(paths(body, whole=whole)) == listed("Sweep") - {"points"}


def test_every_field_of_an_explanation_is_listed() -> None:
    why = plan_explanation(given_fleet())
    body = {key: part for key, part in why.items() if key not in HEADING}
    whole = {"loads[].tightest", "one_less", "served.bracket", "served.above", "gates[].attained"}
    found = set(paths(body, whole=whole))
    said = listed("Explanation")
    assert {path for path in found if not path.startswith("changes")} <= said
    assert {path for path in said if "." in path and not path.startswith("changes")} <= found
