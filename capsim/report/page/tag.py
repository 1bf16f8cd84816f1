"""How a figure is known: the words that stand beside every number of a page."""

from __future__ import annotations

from dataclasses import dataclass

from capsim.report import Json
from capsim.report.confidence import OUTSIDE
from capsim.report.number import share

MEANINGS = {
    "measured": "on the hardware, by a profile or a benchmark",
    "fitted": "a curve or constant through measurements",
    "extrapolated": "outside the range that was measured",
    "assumed": "nobody measured it: computed from a data sheet, or taken as usual",
    "data sheet": "the maker says so",
    "stated": "the scenario says so",
    "derived": "computed from other figures",
}
"""Every word and what it means."""


@dataclass(frozen=True)
class Tag:
    """How figures are known.

    Attributes:
        words: of `MEANINGS`; several where a figure rests on several kinds, as a simulated one does.
        reason: the same as a sentence.
    """

    words: tuple[str, ...]
    reason: str = ""


STATED = Tag(("stated",), "the scenario says so")
DERIVED = Tag(("derived",), "computed from other figures")


def tag(word: str, reason: str = "") -> Tag:
    """One word of a result's own; one that is not known here is derived."""
    return Tag((word if word in MEANINGS else "derived",), reason)


def simulated(cost: Json, outside: float | None) -> Tag:
    """What figures of a simulation rest on: the parts of its step cost, and its steps outside the measured range.

    Args:
        cost: `step_cost` of a result.
        outside: share of the simulated steps outside the measured range.
    """
    parts, source = step_parts(cost), cost["source"]
    if source not in ("measured", "derived"):
        return Tag(("assumed",), f"simulated; no step was measured, the step cost is {source}")
    words = [word for word in ("fitted", "assumed") if parts.get(word)]
    said = [f"of its step cost {', '.join(parts[word])} {word}" for word in words]
    beyond = outside is not None and outside > OUTSIDE
    if beyond:
        said.append(f"{share(outside)} of its steps outside the measured range")
    if source == "derived":
        first = "simulated from step costs that were not measured on this GPU, but derived from another one's"
        return Tag((*words, "extrapolated"), "; ".join([first, *said]))
    words = ["measured", *words, *(["extrapolated"] if beyond else [])]
    return Tag(tuple(words), "; ".join(["simulated from measured step costs", *said]))


def step_parts(cost: Json) -> dict[str, list[str]]:
    """Names of the step cost's figures, by the word that says how they are known."""
    parts: dict[str, list[str]] = {}
    for name, figure in cost.get("figures", {}).items():
        parts.setdefault(tag(figure["tag"]).words[0], []).append(name)
    return parts
