from __future__ import annotations

import pytest

from tests.loop import outcome as loop
from tests.truth import blis, h200, http_server, quiet, quiet_profile, run_seconds, run_table, vllm_cpu_table
from tests.truth.page import COMMAND, HEAD, PAGE, page, tables

SECTIONS = {
    "runs": run_table.table,
    "seconds": run_seconds.table,
    "replays": vllm_cpu_table.table,
    "http": http_server.table,
    "loop": lambda: loop.table(loop.kept()),
    "profile": quiet_profile.table,
    "quiet": quiet.table,
    "h200": h200.table,
}


def test_the_page_begins_as_it_is_written() -> None:
    assert PAGE.read_text(encoding="utf-8").startswith(HEAD)


@pytest.mark.parametrize("name", SECTIONS)
def test_a_section_is_what_would_be_written(name: str) -> None:
    assert "\n".join(SECTIONS[name]().markdown()) in PAGE.read_text(encoding="utf-8"), COMMAND


def test_the_page_is_what_would_be_written() -> None:
    if blis.missing():
        pytest.skip(blis.missing())
    assert page(list(tables())) == PAGE.read_text(encoding="utf-8"), COMMAND
