"""Kernels and steps carried over to another GPU beside those that were timed on it, as Markdown tables."""

from __future__ import annotations

import numpy as np

from calibrate.columns import percent
from calibrate.regime import KINDS, Kind, errors_of
from tests.calibrate.derived_profiles import NAMES, against_measured
from tests.calibrate.transfer_check import bins
from tests.docs.profile_tables import markdown_table


def carried_over() -> list[str]:
    """Errors by kind of kernel and regime: of the other GPU's own times, and of what the rule makes of them."""
    rows = []
    for each in bins():
        sizes = np.abs(each.carried)
        figures = (np.median(each.unscaled), np.median(each.carried))
        rows.append(
            (
                each.kernels,
                each.regime,
                str(len(each.carried)),
                *(f"{100 * value:+.1f} %" for value in figures),
                f"{100 * np.median(sizes):.1f} % ({100 * np.quantile(sizes, 0.9):.1f} %)",
            )
        )
    head = ("Kernels", "Regime", "Shapes", "H200 as it is", "Carried over", "Size")
    return markdown_table(head, rows)


def steps_carried_over() -> list[str]:
    """Mean signed difference of a derived profile's steps, and the median of its size, by kind of step."""
    rows = []
    for name in NAMES:
        compared = against_measured(name)
        found = {
            Kind(error.regime, error.size): f"{percent(error.bias)} ({100 * error.median:.1f} %)"
            for error in errors_of(compared.batches, compared.ours, compared.theirs)
        }
        rows.append((f"`{name}`", *(found.get(kind, "-") for kind in KINDS)))
    return markdown_table(("Profile", *(f"{kind.regime}, {kind.size}" for kind in KINDS)), rows)
