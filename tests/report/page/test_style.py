"""Words can be read on their ground, in light and in dark."""

from __future__ import annotations

import re
from importlib import resources

import pytest

from tests.report.page.conftest import Answer
from tests.report.page.parsed import parse

STYLE = (resources.files("capsim.report.page") / "templates" / "page.css").read_text(encoding="utf-8")
LIGHT, DARK = re.findall(r":root \{(.*?)\}", STYLE, re.DOTALL)
READ = ("ink", "muted", "green", "red", "amber", "blue", "orange", "violet")
"""Colours of words and of lines that carry meaning."""
LEAST = 4.5
"""Contrast of text with its ground, WCAG 2.1, level AA."""


def colours(theme: str) -> dict[str, str]:
    return dict(re.findall(r"--([\w-]+): #([0-9a-f]{6})\b", theme))


def luminance(colour: str) -> float:
    """Relative luminance by WCAG 2.1."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("ground", ["paper", "soft"])
def test_words_stand_out_from_their_ground(theme: str, ground: str) -> None:
    known = colours(theme)
    for name in READ:
        lighter, darker = sorted((luminance(known[name]), luminance(known[ground])), reverse=True)
        assert (lighter + 0.05) / (darker + 0.05) >= LEAST, name


def test_both_themes_have_the_same_colours() -> None:
    assert colours(LIGHT).keys() == colours(DARK).keys()


def test_every_colour_that_is_used_is_there() -> None:
    used = set(re.findall(r"var\(--([\w-]+)\)", STYLE))
    assert used <= set(re.findall(r"--([\w-]+):", LIGHT))


def test_every_key_of_a_legend_has_its_style(plan: Answer) -> None:
    root = parse(plan.page)
    keys = list(root.all("svg", class_="key"))
    assert len(keys) > 20
    names = {word for key in keys for node in key.all() for word in node.attributes["class"].split()}
    plain = {"line", "mark", "pass", "completed", "offered", "area"}
    assert {name for name in names - plain if f".{name}" not in STYLE} == set()
