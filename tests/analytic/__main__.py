"""Prints each closed form beside its interval: ``python -m tests.analytic``."""

from __future__ import annotations

from tests.analytic.closed_forms import CLOSED_FORMS, REPLICATIONS
from tests.analytic.fleet_forms import FLEET_FORMS
from tests.analytic.interval import CONFIDENCE

if __name__ == "__main__":
    print(
        f"{CONFIDENCE:.1%} intervals, Student's t, {REPLICATIONS} replications; bias is that of working in steps"
    )
    print(f"{'':<48}{'formula':>10}{'measured':>10}{'half-width':>12}{'bias':>8}{'error':>9}")
    for form in (*CLOSED_FORMS, *FLEET_FORMS):
        interval, value = form.estimate(), form.value
        print(
            f"{form.name:<48}{value:>10.4f}{interval.mean:>10.4f}{interval.half_width / value:>12.2%}"
            f"{form.bias / value:>8.2%}{interval.mean / value - 1:>+9.2%}"
        )
