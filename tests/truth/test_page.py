from __future__ import annotations

import pytest

from tests.truth import blis, h200, http_server, quiet
from tests.truth.page import COMMAND, HEAD, PAGE, page, tables

SECTIONS = {"http": http_server.table, "quiet": quiet.table, "h200": h200.table}


def test_the_page_begins_as_it_is_written() -> None:
    assert PAGE.read_text(encoding="utf-8").startswith(HEAD)


@pytest.mark.parametrize("name", SECTIONS)
def test_a_section_is_what_would_be_written(name: str) -> None:
    assert "\n".join(SECTIONS[name]().markdown()) in PAGE.read_text(encoding="utf-8"), COMMAND


def test_the_page_is_what_would_be_written() -> None:
    if blis.missing():
        pytest.skip(blis.missing())
    assert page(list(tables())) == PAGE.read_text(encoding="utf-8"), COMMAND
