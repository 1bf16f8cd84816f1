"""The page as one HTML file: templates, style and the copy button's few lines inside it, nothing outside."""

from __future__ import annotations

from collections.abc import Callable
from importlib import resources
from pathlib import Path

from capsim.report import Json
from capsim.report.page.block import Page
from capsim.report.page.infeasible_page import infeasible_page
from capsim.report.page.plan_page import plan_page
from capsim.report.page.run_page import run_page
from capsim.report.page.tag import MEANINGS

NAME = "report.html"
PAGES: dict[str, Callable[[Json, Json | None, str], Page]] = {
    "capsim.plan": plan_page,
    "capsim.run": run_page,
    "capsim.infeasible": infeasible_page,
}
"""Who says what there is to say of a result, by its schema."""


def page_html(result: Json, course: Json | None = None, command: str = "") -> str:
    """A result as a page; the same result gives the same bytes.

    Args:
        result: of a schema in `PAGES`.
        course: of one run of it; left out where it is of another question or seed.
        command: that asked; empty: not known.
    """
    same = course is not None and all(course[key] == result.get(key) for key in ("fingerprint", "seed"))
    return render(PAGES[result["schema"]](result, course if same else None, command))


def write_page(path: Path, result: Json, course: Json | None = None, command: str = "") -> None:
    """Write `page_html` to a file."""
    path.write_text(page_html(result, course, command), encoding="utf-8", newline="\n")


def render(page: Page) -> str:
    """Lay a page out."""
    from jinja2 import Environment, PackageLoader, StrictUndefined  # not needed to check or run a scenario

    environment = Environment(
        loader=PackageLoader("capsim.report.page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    files = resources.files("capsim.report.page") / "templates"
    style, script = ((files / name).read_text(encoding="utf-8") for name in ("page.css", "copy.js"))
    template = environment.get_template("page.html")
    return template.render(page=page, style=style, script=script, meanings=MEANINGS)
