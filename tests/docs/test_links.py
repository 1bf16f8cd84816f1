from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.page import ROOT, Prose, page_paths, read_page

_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"#{1,6} (.+)")


def links(path: Path) -> list[str]:
    """Targets of a page's links and pictures inside the repository."""
    prose = [line for part in read_page(path).parts if isinstance(part, Prose) for line in part.lines]
    found = _LINK.findall("\n".join(prose))
    return [target for target in found if not target.startswith(("http://", "https://"))]


def anchors(path: Path) -> set[str]:
    """What can be linked to in a page: its headings as GitHub names them."""
    headings = (_HEADING.fullmatch(line) for line in read_page(path).text.splitlines())
    words = (re.sub(r"[^\w\- ]", "", heading[1].lower()) for heading in headings if heading)
    return {word.replace(" ", "-") for word in words}


@pytest.mark.parametrize("path", page_paths(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(path: Path) -> None:
    for link in links(path):
        name, _, anchor = link.partition("#")
        target = (path.parent / name).resolve() if name else path
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target), link


def test_every_page_is_linked_to() -> None:
    linked = {
        (path.parent / link.partition("#")[0]).resolve() for path in page_paths() for link in links(path)
    }
    assert set(page_paths()) - linked <= {ROOT / "README.md"}
