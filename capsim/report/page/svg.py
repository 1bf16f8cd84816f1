"""Elements of an SVG as text: attributes in a stable order, coordinates short, words escaped."""

from __future__ import annotations

import math
from collections.abc import Iterable
from html import escape

Attribute = str | float


def element(name: str, *children: str, **attributes: Attribute) -> str:
    """An element; an underscore at the end of an attribute's name is dropped, one inside becomes a hyphen.

    Args:
        name: of the element.
        children: elements and escaped words inside.
        attributes: words, or numbers, which are written as coordinates.
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_value(value)}"' for key, value in attributes.items()
    )
    return f"<{name}{written}>{''.join(children)}</{name}>" if children else f"<{name}{written}/>"


def words(text: str) -> str:
    """Text as it may stand inside an element."""
    return escape(text, quote=False)


def coordinate(value: float) -> str:
    """A tenth of a pixel is as fine as can be seen: ``12.5``, ``7``.

    Raises:
        ValueError: the value is infinite or no number.
    """
    if not math.isfinite(value):
        raise ValueError(f"no coordinate: {value}")
    text = f"{value:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text


def path(points: Iterable[tuple[float, float]]) -> str:
    """A path through points, with a gap where one is not finite; empty without two points side by side."""
    parts: list[str] = []
    stretch: list[str] = []
    for x, y in [*points, (math.nan, math.nan)]:
        if math.isfinite(x) and math.isfinite(y):
            stretch.append(f"{coordinate(x)} {coordinate(y)}")
        else:
            parts += [f"M{'L'.join(stretch)}"] if len(stretch) > 1 else []
            stretch = []
    return "".join(parts)


def _value(value: Attribute) -> str:
    return escape(value) if isinstance(value, str) else coordinate(value)
