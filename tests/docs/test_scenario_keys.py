"""The generated table leaves no key of the schema out."""

from __future__ import annotations

from capsim.catalog.schema import Section
from capsim.scenario.file import ScenarioSection
from capsim.scenario.meanings import MEANINGS, SECTIONS
from tests.docs.scenario_keys import EFFICIENCY, scenario_keys


def keys() -> set[str]:
    return {f"{path}.{name}".lstrip(".") for _, path, section, _ in SECTIONS for name in section.model_fields}


def test_every_section_of_the_schema_has_a_table() -> None:
    sections = {each for each in Section.__subclasses__() if each.__module__.startswith("capsim.scenario.")}
    assert ScenarioSection in sections
    assert {section for _, _, section, _ in SECTIONS} == sections


def test_what_is_said_is_said_of_a_key_that_there_is() -> None:
    assert set(MEANINGS) <= keys()
    assert set(EFFICIENCY) <= keys()


def test_every_row_is_full() -> None:
    rows = [line for line in scenario_keys() if line.startswith("| `")]
    assert len(rows) >= len(keys())
    for row in rows:
        assert all(cell.strip() for cell in row.strip("|").split("|")), row
