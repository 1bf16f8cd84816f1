from __future__ import annotations

from collections.abc import Callable

from tests.docs.command_line import command_line
from tests.docs.profile_format import profile_format
from tests.docs.profile_tables import (
    held_out_errors,
    independent_steps,
    mixed_attention,
    raised_points,
    roofline_errors,
)
from tests.docs.roofline_figures import roofline_figures
from tests.docs.scenario_keys import scenario_keys
from tests.docs.serve_flags import serve_flags
from tests.docs.transfer_table import carried_over, steps_carried_over

GENERATORS: dict[str, Callable[[], list[str]]] = {
    "chunks and decodes together": mixed_attention,
    "commands and options": command_line,
    "errors of the roofline": roofline_errors,
    "errors on held-out shapes": held_out_errors,
    "figures of the roofline": roofline_figures,
    "flags of vllm serve": serve_flags,
    "format of a profile": profile_format,
    "keys of a scenario": scenario_keys,
    "kernels carried over": carried_over,
    "points faster than the GPU": raised_points,
    "steps beside an independent composition": independent_steps,
    "steps carried over": steps_carried_over,
}
"""Who writes a generated part, by its name."""
