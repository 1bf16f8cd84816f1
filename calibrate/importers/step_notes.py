"""What the reader of a profile must know of the steps that it was made from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from calibrate.step_fit import MeasuredStep
from calibrate.step_tables import StepTables


def notes(
    steps: Sequence[MeasuredStep], kept: Sequence[MeasuredStep], tables: StepTables, *, live: bool
) -> Iterator[str]:
    """One sentence or two each.

    Args:
        steps: all that were measured.
        kept: those that the tables were made from.
        tables: what was made of them.
        live: the engine served while it was measured.
    """
    yield from _logged(steps) if live else _measured(steps, tables.moved)
    uneven = sum(step.batch.largest_context * step.batch.decodes > step.batch.context for step in steps)
    if uneven:
        yield f"{uneven} shapes have decodes of unequal contexts: they are priced at the mean."
    if tables.attention.prefill.tag == "assumed":
        yield (
            "No shape tells a chunk's attention from its tokens (all are one chunk without a past): chunks take the "
            "roofline's seconds a pair of query and key, assumed."
        )
    if tables.apart is not None:
        yield (
            "Attention of chunks together with decodes is a table of all measured mixed shapes; prefill and decode "
            f"added up would be {100 * tables.apart:.1f} % off a step in the median."
        )
    if len(kept) == len(steps):
        yield "No shape was held out of the tables: there are too few."


def _logged(steps: Sequence[MeasuredStep]) -> Iterator[str]:
    yield (
        f"Whole steps of a live engine were logged ({len(steps)} shapes): what tokens, sequences, chunks and "
        "attention take is one fit of few parameters, and no logged step itself stands in the tables."
    )
    noisy = sum(step.noisy for step in steps)
    yield f"{noisy} shapes were measured once, or have chunks and count by their first step: they weigh half."


def _measured(steps: Sequence[MeasuredStep], moved: float) -> Iterator[str]:
    yield (
        f"Whole steps were measured ({len(steps)} shapes); step_tokens and attention are a fit of their parts, "
        "which add up to the measured seconds at the shapes in the tables."
    )
    yield f"To never fall, attention was moved by at most {1e6 * moved:.3g} us in a cell."
    noisy = sum(step.noisy for step in steps)
    if noisy:
        yield f"{noisy} shapes are noisy by the source's own figures: they weigh half."
