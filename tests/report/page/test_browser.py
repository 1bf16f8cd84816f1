"""The page in a browser, at the width of a desk and of a phone: no complaint, nothing cut off, nothing overlapping.

Needs a Chromium (on the path, or named by CAPSIM_CHROMIUM) and the extra `browser`; skipped with the reason otherwise.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from capsim.report.number import number
from tests.report.page.conftest import COMMAND, Answer

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
WIDTHS = (1280, 390)
"""Pixels: a desk, a phone."""
OPEN = "document.querySelectorAll('details').forEach(each => each.open = true)"
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
CUT_OFF = """[...document.querySelectorAll('figure > svg')].flatMap(svg => {
  const frame = svg.getBoundingClientRect();
  return [...svg.querySelectorAll('text')].filter(text => {
    const box = text.getBoundingClientRect();
    return box.left < frame.left - 1 || box.right > frame.right + 1 || box.bottom > frame.bottom + 1;
  }).map(text => text.textContent);
})"""
OVERLAPS = """[...document.querySelectorAll('figure > svg')].flatMap(svg => {
  const texts = [...svg.querySelectorAll('text')].map(text => [text.textContent, text.getBoundingClientRect()]);
  return texts.flatMap(([one, a], i) => texts.slice(i + 1).filter(([, b]) =>
    a.left < b.right && b.left < a.right && a.top + 2 < b.bottom && b.top + 2 < a.bottom).map(([two]) => [one, two]));
})"""
SPILLED = """[...document.querySelectorAll('main *')].filter(node =>
  !node.closest('.scroll, pre, svg, .word') && node.getBoundingClientRect().right > innerWidth + 1
).map(node => node.className || node.tagName)"""


def chromium() -> str | None:
    named = os.environ.get("CAPSIM_CHROMIUM")
    return named or next((found for name in NAMES if (found := shutil.which(name))), None)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    driver = pytest.importorskip(
        "playwright.sync_api", reason="the page is not tried in a browser: pip install '.[browser]'"
    )
    program = chromium()
    if program is None:
        pytest.skip("the page is not tried in a browser: no Chromium on the path, nor in CAPSIM_CHROMIUM")
    with driver.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


class Visit:
    """An opened page and everything that its browser had to say of it."""

    def __init__(self, browser: Any, file: Path, width: int, theme: str = "light") -> None:
        self.page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=theme)
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(file.as_uri())


@pytest.fixture
def file(answer: Answer, tmp_path: Path) -> Path:
    path = tmp_path / "report.html"
    path.write_text(answer.page, encoding="utf-8")
    return path


@pytest.fixture
def plan_file(plan: Answer, tmp_path: Path) -> Path:
    path = tmp_path / "plan.html"
    path.write_text(plan.page, encoding="utf-8")
    return path


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_is_said_asked_for_or_cut_off(browser: Any, file: Path, width: int) -> None:
    visit = Visit(browser, file, width)
    assert visit.page.evaluate(OVERFLOW) <= 0
    visit.page.evaluate(OPEN)
    assert visit.page.evaluate(OVERFLOW) <= 0
    assert visit.page.evaluate(SPILLED) == []
    assert visit.page.evaluate(CUT_OFF) == []
    assert visit.page.evaluate(OVERLAPS) == []
    assert visit.said == []
    assert [url for url in visit.asked if not url.startswith(("file:", "data:"))] == []
    visit.page.close()


@pytest.mark.parametrize("width", WIDTHS)
def test_the_answer_is_seen_without_scrolling(
    browser: Any, plan: Answer, plan_file: Path, width: int
) -> None:
    visit = Visit(browser, plan_file, width)
    seen = visit.page.locator(".answer").inner_text()
    result = plan.result
    for wanted in (
        str(result["answer"]["replicas"]),
        number(result["operating_point"]["rate"]),
        result["binding"]["gates"][0],
        "20% in reserve",
    ):
        assert wanted in seen
    box = visit.page.locator("h1").bounding_box()
    sentence = visit.page.locator(".sentence").bounding_box()
    assert box["y"] + box["height"] < 900
    assert sentence["y"] + sentence["height"] < 900
    assert not visit.page.locator(".evidence table").first.is_visible()
    visit.page.close()


def test_the_keyboard_unfolds_the_evidence(browser: Any, plan_file: Path) -> None:
    visit = Visit(browser, plan_file, WIDTHS[0])
    first = visit.page.locator(".evidence > details").first
    first.locator("summary").first.focus()
    visit.page.keyboard.press("Enter")
    assert first.get_attribute("open") is not None
    assert first.locator("figure svg").first.is_visible()
    visit.page.close()


def test_the_button_copies_the_command_or_selects_it(browser: Any, plan_file: Path) -> None:
    visit = Visit(browser, plan_file, WIDTHS[0])
    visit.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    button = visit.page.get_by_role("button", name="Copy")
    button.click()
    visit.page.wait_for_function("document.querySelector('footer button').textContent !== 'Copy'")
    if visit.page.locator("footer button").inner_text() == "Copied":
        assert visit.page.evaluate("navigator.clipboard.readText()") == COMMAND
    else:
        assert visit.page.evaluate("getSelection().toString()") == COMMAND
    visit.page.close()


def test_it_is_read_in_the_dark(browser: Any, plan_file: Path) -> None:
    grounds = set()
    for theme in ("light", "dark"):
        visit = Visit(browser, plan_file, WIDTHS[0], theme)
        grounds.add(visit.page.evaluate("getComputedStyle(document.body).backgroundColor"))
        visit.page.close()
    assert len(grounds) == 2
