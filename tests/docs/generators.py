from __future__ import annotations

from collections.abc import Callable

from tests.docs.command_line import command_line
from tests.docs.roofline_figures import roofline_figures
from tests.docs.scenario_keys import scenario_keys

GENERATORS: dict[str, Callable[[], list[str]]] = {
    "commands and options": command_line,
    "figures of the roofline": roofline_figures,
    "keys of a scenario": scenario_keys,
}
"""Who writes a generated part, by its name."""
