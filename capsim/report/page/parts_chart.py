"""The parts of TTFT as stacked bars, for fast requests and for slow ones."""

from __future__ import annotations

from capsim.report import Json
from capsim.report.number import count, milliseconds, number
from capsim.report.page.block import Cell, Charts, Figure, Key, Table
from capsim.report.page.scale import Scale, linear
from capsim.report.page.svg import element, words
from capsim.report.page.tag import Tag

WIDTH, LEFT, RIGHT = 440.0, 92.0, 58.0
BAR, GAP, TOP, BOTTOM = 24.0, 12.0, 8.0, 36.0
PARTS = ("network_and_gateway", "tokenization", "cold_state", "queue", "prefill", "stream_out")


def parts_of_ttft(bands: list[Json], tag: Tag) -> Charts:
    """Stacked bars and the same as a table.

    Args:
        bands: as `capsim.plan.course.course_result` gives them, at least one.
        tag: how the figures are known.
    """
    keys = tuple(Key(f"part-{name}", _words(name), "area") for name in _shown(bands))
    said = "; ".join(f"{_band(band)}: {milliseconds(_sum(band))} ms" for band in bands)
    figure = Figure("Mean TTFT of users, ms, by how slow the request was", _svg(bands, f"{said}."), keys)
    return Charts((figure,), tag, table=_table(bands, tag))


def _svg(bands: list[Json], said: str) -> str:
    height = TOP + len(bands) * (BAR + GAP) + BOTTOM
    bottom = height - BOTTOM
    scale = linear(0.0, max(map(_sum, bands)), LEFT, WIDTH - RIGHT)
    drawn = [
        element("title", "Parts of TTFT", id="parts-title"),
        element("desc", words(said), id="parts-desc"),
    ]
    axis = [element("line", x1=LEFT, x2=LEFT, y1=TOP, y2=bottom)]
    for value in scale.ticks(4):
        place = scale(value)
        axis.append(element("line", class_="grid", x1=place, x2=place, y1=TOP, y2=bottom))
        axis.append(element("text", number(1000 * value), x=place, y=bottom + 16, text_anchor="middle"))
    drawn.append(element("g", *axis, class_="axes"))
    for i, band in enumerate(bands):
        drawn += _bar(band, TOP + GAP / 2 + i * (BAR + GAP), scale)
    box = f"0 0 {WIDTH:g} {height:g}"
    return element("svg", *drawn, viewBox=box, role="img", aria_labelledby="parts-title parts-desc")


def _bar(band: Json, top: float, scale: Scale) -> list[str]:
    """The parts of one band side by side, its name before and its sum behind them."""
    middle, reached = top + BAR / 2 + 4, 0.0
    drawn = [element("text", words(_band(band)), class_="label", x=LEFT - 8, y=middle, text_anchor="end")]
    for name in PARTS:
        start, reached = reached, reached + band["parts"][name]
        width = scale(reached) - scale(start)
        if width > 0:
            box = {"x": scale(start), "y": top, "width": width, "height": BAR}
            drawn.append(element("rect", class_=f"part-{name}", **box))
    drawn.append(element("text", milliseconds(reached), class_="label", x=scale(reached) + 6, y=middle))
    return drawn


def _shown(bands: list[Json]) -> list[str]:
    """Parts that any band has."""
    return [name for name in PARTS if any(band["parts"][name] > 0 for band in bands)]


def _sum(band: Json) -> float:
    return float(sum(band["parts"].values()))


def _band(band: Json) -> str:
    if band["above"] == 0:
        return f"fastest {band['upto']}%"
    if band["upto"] == 100:
        return f"slowest {100 - band['above']}%"
    return f"{band['above']} to {band['upto']}%"


def _words(part: str) -> str:
    return part.replace("_", " ")


def _table(bands: list[Json], tag: Tag) -> Table:
    shown = _shown(bands)
    rows = tuple(
        (
            Cell(_band(band)),
            Cell(count(band["requests"]), band["requests"]),
            *(Cell(milliseconds(band["parts"][name]), band["parts"][name]) for name in shown),
            Cell(milliseconds(_sum(band)), _sum(band)),
        )
        for band in bands
    )
    header = ("requests by TTFT", "requests", *map(_words, shown), "sum")
    return Table(header, "l" + "r" * (len(header) - 1), rows, tag, caption="Mean of each part, ms")
