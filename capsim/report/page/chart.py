"""A small chart as SVG: axes, lines, bands, strips, limits and marks; colours come from the page's style sheet."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from capsim.report.number import number
from capsim.report.page.scale import Scale
from capsim.report.page.svg import element, path, words

WIDTH, HEIGHT = 440.0, 236.0
LEFT, RIGHT, TOP, BOTTOM = 52.0, 22.0, 12.0, 40.0
LETTER = 6.2
"""Width of a letter of a label, more or less."""

Points = Sequence[tuple[float, float]]


X_SPAN = LEFT, WIDTH - RIGHT
"""Where the horizontal axis begins and ends."""
Y_SPAN = HEIGHT - BOTTOM, TOP
"""Where the vertical axis begins, below, and ends."""


class Chart:
    """Draws on two scales; what is drawn first lies below.

    Args:
        x, y: the scales, made for `X_SPAN` and `Y_SPAN`.
        name: what is on the horizontal axis, with its unit; what is on the other one is the figure's title.
        x_text, y_text: figures of the ticks as words.
    """

    def __init__(
        self,
        x: Scale,
        y: Scale,
        name: str,
        *,
        x_text: Callable[[float], str] = number,
        y_text: Callable[[float], str] = number,
    ) -> None:
        self.x, self.y = x, y
        self._name = name
        self._text = x_text, y_text
        self._drawn: list[str] = []

    def line(self, points: Points, name: str) -> None:
        """A line through points, with gaps where one does not exist."""
        self._path(path(self._places(points)), f"line {name}")

    def steps(self, edges: Sequence[float], values: Sequence[float], name: str) -> None:
        """A level between every two edges."""
        points = [(edge, value) for i, value in enumerate(values) for edge in (edges[i], edges[i + 1])]
        self.line(points, name)

    def area(self, edges: Sequence[float], values: Sequence[float], name: str) -> None:
        """What lies below steps."""
        points = [(edge, value) for i, value in enumerate(values) for edge in (edges[i], edges[i + 1])]
        self.band(points, [(edge, self.y.low) for edge, _ in points], name)

    def band(self, lower: Points, upper: Points, name: str) -> None:
        """What lies between two lines at the same places; none where either does not exist."""
        pairs = list(zip(self._places(lower), self._places(upper), strict=True))
        stretch: list[tuple[tuple[float, float], tuple[float, float]]] = []
        for pair in [*pairs, None]:
            if pair is not None and all(math.isfinite(value) for point in pair for value in point):
                stretch.append(pair)
                continue
            if len(stretch) > 1:
                around = [low for low, _ in stretch] + [high for _, high in reversed(stretch)]
                self._path(f"{path(around)}Z", f"band {name}")
            stretch = []

    def strip(self, low: float, high: float, name: str) -> None:
        """A vertical strip between two figures of the horizontal axis, as far as it is on it."""
        left, right = (self.x(min(max(edge, self.x.low), self.x.high)) for edge in (low, high))
        if right > left:
            bottom, top = Y_SPAN
            box = {"x": left, "y": top, "width": right - left, "height": bottom - top}
            self._drawn.append(element("rect", class_=name, **box))

    def upright(self, value: float, name: str) -> None:
        """A vertical line, if it is on the axis."""
        if self.x.low <= value <= self.x.high:
            bottom, top = Y_SPAN
            place = self.x(value)
            self._drawn.append(element("line", class_=name, x1=place, x2=place, y1=bottom, y2=top))

    def level(self, value: float, name: str) -> None:
        """A horizontal line, if it is on the axis."""
        if self.y.low <= value <= self.y.high:
            left, right = X_SPAN
            place = self.y(value)
            self._drawn.append(element("line", class_=name, x1=left, x2=right, y1=place, y2=place))

    def mark(self, x: float, y: float, name: str) -> None:
        """A dot; a cross for what fails, a ring for what is undecided."""
        place = self.x(x), self.y(y)
        if not all(math.isfinite(value) for value in place):
            return
        if name.endswith((" fail", " overloaded")):
            a, b = place
            drawn = f"M{a - 3.5:.1f} {b - 3.5:.1f}l7 7m0-7l-7 7"
            self._drawn.append(element("path", class_=f"mark {name}", d=drawn))
        else:
            self._drawn.append(element("circle", class_=f"mark {name}", cx=place[0], cy=place[1], r=3.6))

    def label(self, x: float, y: float, text: str, *, anchor: str = "start", name: str = "label") -> None:
        """Words at a place of the scales; such as would leave the chart are turned to its other side."""
        a, b = self.x(x), self.y(y)
        length = LETTER * len(text)
        if anchor == "start" and a + length > WIDTH:
            anchor = "end"
        elif anchor == "end" and a - length < LEFT:
            anchor = "start"
        shift = 5 if anchor == "start" else -5
        place = {"x": a + shift, "y": b}
        self._drawn.append(element("text", words(text), class_=name, text_anchor=anchor, **place))

    def svg(self, identity: str, title: str, description: str) -> str:
        """The chart, named and described for those who cannot see it.

        Args:
            identity: of the title on the page.
            title: what it shows.
            description: what is to be seen, in a sentence.
        """
        about = (
            element("title", words(title), id=f"{identity}-title"),
            element("desc", words(description), id=f"{identity}-desc"),
        )
        labelled = f"{identity}-title {identity}-desc"
        box = f"0 0 {WIDTH:g} {HEIGHT:g}"
        drawn = element("g", *self._drawn, class_="drawn") if self._drawn else ""
        return element(
            "svg",
            *about,
            self._grid(),
            drawn,
            self._axes(),
            viewBox=box,
            role="img",
            aria_labelledby=labelled,
        )

    def _places(self, points: Points) -> list[tuple[float, float]]:
        return [(self.x(x), self.y(y)) for x, y in points]

    def _path(self, drawn: str, name: str) -> None:
        if drawn:
            self._drawn.append(element("path", class_=name, d=drawn))

    def _grid(self) -> str:
        left, right = X_SPAN
        places = [self.y(value) for value in self.y.ticks()]
        lines = [element("line", x1=left, x2=right, y1=place, y2=place) for place in places]
        return element("g", *lines, class_="grid") if lines else ""

    def _axes(self) -> str:
        left, right = X_SPAN
        bottom = Y_SPAN[0]
        parts = [element("line", x1=left, x2=right, y1=bottom, y2=bottom)]
        for value in self.x.ticks():
            place = self.x(value)
            parts.append(element("line", x1=place, x2=place, y1=bottom, y2=bottom + 4))
            parts.append(
                element("text", words(self._text[0](value)), x=place, y=bottom + 16, text_anchor="middle")
            )
        parts += [
            element("text", words(self._text[1](value)), x=left - 7, y=self.y(value) + 4, text_anchor="end")
            for value in self.y.ticks()
        ]
        middle = (left + right) / 2
        parts.append(
            element("text", words(self._name), class_="name", x=middle, y=HEIGHT - 5, text_anchor="middle")
        )
        return element("g", *parts, class_="axes")
