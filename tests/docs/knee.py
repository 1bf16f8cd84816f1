"""The picture of the knee in the tutorial: the quick start's own, in few colours, with the figures that it shows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from PIL import Image
from PIL.PngImagePlugin import PngInfo

from tests.docs.page import ROOT

PICTURE = ROOT / "docs" / "tutorial" / "knee.png"
COLOURS = 64
"""Lines and bands need no more, and the file is a quarter of its size."""


def save_picture(folder: Path) -> None:
    """Keep the picture of a run folder."""
    about = PngInfo()
    about.add_text("figures", figures(folder))
    with Image.open(folder / "knee.png") as picture:
        few = picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    few.save(PICTURE, optimize=True, pnginfo=about)


def figures(folder: Path) -> str:
    """What the picture of a run folder shows, to 4 digits: every rate tried and where the operating point is."""
    result: dict[str, Any] = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    rows = [
        [
            point["rate"],
            point["goodput"][0],
            point["attainment"][0],
            point["ttft"]["p95"][0],
            point["tpot"]["p95"][0],
        ]
        for point in result["sweep"]
    ]
    rows.append(
        [result["operating_point"]["rate"], result["saturated_rate"]["mean"], result["bound"]["rate"]]
    )
    return "\n".join(" ".join("inf" if value is None else f"{value:.4g}" for value in row) for row in rows)


def pictured() -> str:
    """What the kept picture shows, as it was when it was drawn."""
    with Image.open(PICTURE) as picture:
        return str(picture.info["figures"])
