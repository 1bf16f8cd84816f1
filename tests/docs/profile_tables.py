"""The shipped profiles as Markdown tables: how far they lie from the roofline, from what was held out, and more."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path

from calibrate.columns import percent
from calibrate.probe import equal_batch
from calibrate.regime import KINDS, Kind, shape_text
from calibrate.show import Shown
from capsim.catalog.data import data_names, data_path
from capsim.cost import load_profile
from capsim.cost.mixed_attention import MixedAttention
from capsim.cost.profile_tables import HeldOut
from tests.calibrate.test_h200_profiles import INDEPENDENT

H200 = "h200-llama-3.1-8b-bf16-tp1"
"""The profile of the quick start."""
TOGETHER = ((512, 64, 1025), (2048, 64, 1025), (16, 1, 16385))
"""Tokens of a chunk, decodes beside it and the context of each: two usual steps, and one with the largest ratio."""
_RAISED = re.compile(r"were raised to them: (.+)")
_POINTS = re.compile(r"([a-z_ ]+?) (\d+) by up to ([\d.]+)%")


@cache
def shown(name: str) -> Shown:
    """A shipped profile beside its roofline."""
    return Shown.of(load_profile(data_path("profiles", f"{name}.json")))


def profiles() -> list[str]:
    """Names of all shipped profiles."""
    return [Path(name).stem for name in data_names("profiles", (".json",))]


def roofline_errors() -> list[str]:
    """Mean signed error of the roofline, and the median of its size, by profile and kind of step."""
    return _by_kind(
        lambda name: shown(name).errors, lambda error: f"{percent(error.bias)} ({_share(error.median)})"
    )


def held_out_errors() -> list[str]:
    """Median and ninetieth percentile of the tables' errors on shapes that they do not hold."""
    return _by_kind(
        lambda name: shown(name).profile.held_out,
        lambda error: f"{_share(error.median)} ({_share(error.p90)})",
    )


def raised_points() -> list[str]:
    """Points of the source that were faster than the GPU, by profile."""
    rows = []
    for name in profiles():
        raised = [found for note in shown(name).profile.provenance.notes for found in _RAISED.findall(note)]
        points = _POINTS.findall(" ".join(raised))
        if points:
            where = "; ".join(f"{table.strip()} {count} (up to {most} %)" for table, count, most in points)
            rows.append((f"`{name}`", f"{sum(int(count) for _, count, _ in points)}", where))
    return markdown_table(("Profile", "Points", "Where"), rows)


def independent_steps() -> list[str]:
    """The quick start's profile beside what aiconfigurator itself composes from the same tables."""
    host = shown(H200).profile.host
    others = [milliseconds / 1e3 for group in INDEPENDENT for milliseconds in group.values()]
    rows = [
        (
            step.name,
            f"{1e3 * other:.1f} ms",
            f"{1e3 * (step.seconds - host):.2f} ms",
            percent((step.seconds - host) / other - 1),
            percent(step.seconds / other - 1),
        )
        for step, other in zip(shown(H200).steps, others, strict=True)
    ]
    return markdown_table(
        ("Step", "aiconfigurator", "Profile without the host", "Difference", "With the host"), rows
    )


def mixed_attention() -> list[str]:
    """Attention of one layer, of a chunk and decodes apart and together, where both were measured."""
    rows = []
    for name in profiles():
        attention = shown(name).profile.attention
        if attention.mixed is None:
            continue
        ratios = MixedAttention(attention, attention.mixed)
        for new, decodes, context in TOGETHER:
            chunk, rest = attention.prefill.row(new).at(0), attention.decode.row(decodes).at(context)
            ratio = ratios.ratio(new, 0, decodes, context)
            shape = shape_text(equal_batch(new, 0, decodes, context))
            seconds = (chunk, rest, ratio * (chunk + rest))
            rows.append((f"`{name}`", shape, *(f"{1e6 * each:.0f} us" for each in seconds), f"{ratio:.2f}"))
    return markdown_table(
        ("Profile", "Step", "Chunk alone", "Decodes alone", "Together", "Together / sum"), rows
    )


def _by_kind(errors: Callable[[str], Sequence[HeldOut]], text: Callable[[HeldOut], str]) -> list[str]:
    rows = []
    for name in profiles():
        found = {Kind(error.regime, error.size): text(error) for error in errors(name)}
        if found:
            rows.append((f"`{name}`", *(found.get(kind, "-") for kind in KINDS)))
    return markdown_table(("Profile", *(f"{kind.regime}, {kind.size}" for kind in KINDS)), rows)


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table between empty ones."""
    return ["", *_lines(head, rows), ""]


def _lines(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    for cells in (head, ["---"] * len(head), *rows):
        yield f"| {' | '.join(cells)} |"


def _share(value: float) -> str:
    return f"{100 * value:.1f} %"
