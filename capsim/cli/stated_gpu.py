"""A GPU from what a command line states of it, and from another GPU where that says nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from capsim import units
from capsim.catalog import Gpu
from capsim.catalog.loader import COMPUTE_DTYPES, FIGURES
from capsim.catalog.plausible import implausible
from capsim.catalog.schema import closest
from capsim.errors import BadInput, Fault

OPTIONS = {
    "memory": "--memory",
    "memory_bandwidth": "--memory-bandwidth",
    "dense_flops": "--rate",
    "link_bandwidth": "--link-bandwidth",
}
PARSERS: Mapping[str, Callable[[object], Any]] = {
    "memory": units.parse_size,
    "memory_bandwidth": units.parse_bandwidth,
    "link_bandwidth": units.parse_bandwidth,
}
STATED = "user's statement"
"""Begins the source of each figure that the command line states: nobody else vouches for it."""


@dataclass(frozen=True)
class StatedGpu:
    """A GPU's figures as they stand on a command line.

    Attributes:
        name: of the GPU.
        figures: text by figure, of those that are stated, rates apart.
        rates: ``DTYPE=RATE``; where some are stated, none of another GPU is kept.
        sources: ``FIGURE=TEXT``, or one text for all figures that are stated.
        link_per_peer: see `Gpu.link_per_peer`; None: not stated.
    """

    name: str
    figures: Mapping[str, str]
    rates: Sequence[str]
    sources: Sequence[str]
    link_per_peer: bool | None = None

    @property
    def stated(self) -> tuple[str, ...]:
        """Figures that the command line states, sound or not."""
        return (*self.figures, *(("dense_flops",) if self.rates else ()))

    def gpu(self, like: Gpu | None) -> Gpu:
        """The GPU, with the figures of another where none is stated.

        Raises:
            BadInput: every figure that cannot be read, is missing, has no source or is not believed.
        """
        faults: list[Fault] = []
        read = dict(self._read(faults))
        sources = self._sources(faults)
        known: dict[str, Any] = {} if like is None else {figure: getattr(like, figure) for figure in FIGURES}
        for figure in FIGURES:
            if figure not in known and figure not in self.stated:
                expected = "the figure, or --like with a GPU that has it"
                faults.append(Fault(OPTIONS[figure], "is missing", expected=expected))
        if faults:
            raise BadInput(*faults)
        gpu = Gpu(
            name=self.name,
            **{**known, **read},
            sources={figure: sources.get(figure) or _kept(like, figure) for figure in FIGURES},
            link_per_peer=self._link_per_peer(like),
        )
        doubts = [Fault(_option(path), what, expected=expected) for path, what, expected in implausible(gpu)]
        if doubts:
            raise BadInput(*doubts)
        return gpu

    def _link_per_peer(self, like: Gpu | None) -> bool:
        if self.link_per_peer is not None:
            return self.link_per_peer
        return like is not None and like.link_per_peer

    def _read(self, faults: list[Fault]) -> Iterator[tuple[str, Any]]:
        """The figures that are stated and can be read."""
        for figure, text in self.figures.items():
            yield from _parsed(figure, text, PARSERS[figure], OPTIONS[figure], faults)
        rates = dict(self._rates(faults))
        if rates:
            yield "dense_flops", rates

    def _rates(self, faults: list[Fault]) -> Iterator[tuple[str, float]]:
        for text in self.rates:
            dtype, _, rate = text.partition("=")
            if dtype not in COMPUTE_DTYPES:
                expected = f"DTYPE=RATE, of {', '.join(COMPUTE_DTYPES)}"
                suggestion = closest(dtype, COMPUTE_DTYPES)
                faults.append(Fault("--rate", f"{dtype!r} is no dtype", "", expected, suggestion))
                continue
            yield from _parsed(dtype, rate, units.parse_compute, f"--rate {dtype}", faults)

    def _sources(self, faults: list[Fault]) -> dict[str, str]:
        """The source of each figure that is stated."""
        given: dict[str, str] = {}
        for text in self.sources:
            figure, equals, said = text.partition("=")
            named = figure if equals and figure in FIGURES else ""
            if named and named not in self.stated:
                faults.append(Fault("--source", f"{named} is not stated", expected=OPTIONS[named]))
            given[named] = said.strip() if named else text.strip()
        lacking = [figure for figure in self.stated if not (given.get(figure) or given.get(""))]
        if lacking:
            what = f"no source for {', '.join(lacking)}"
            expected = "where the figures come from, such as 'data sheet of the vendor, May 2026'"
            faults.append(Fault("--source", what, expected=expected))
        return {figure: f"{STATED}: {given.get(figure) or given.get('')}" for figure in self.stated}


def _parsed(
    name: str, text: str, parse: Callable[[object], Any], option: str, faults: list[Fault]
) -> Iterator[tuple[str, Any]]:
    """A quantity by its name; a fault and nothing where it cannot be read."""
    try:
        yield name, parse(text)
    except units.UnitError as error:
        faults.append(Fault(option, error.what, "", error.expected, error.suggestion))


def _option(path: Sequence[str]) -> str:
    """What states the figure of this path, with its dtype."""
    return " ".join((OPTIONS[path[0]], *path[1:]))


def _kept(like: Gpu | None, figure: str) -> str:
    return "" if like is None else f"as {like.name}: {like.sources[figure]}"
