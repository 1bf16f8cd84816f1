"""Pictures of the pages: in few colours, with the figures that they show, so that a test knows which are stale."""

from __future__ import annotations

from pathlib import Path

from PIL import Image
from PIL.PngImagePlugin import PngInfo

COLOURS = 64
"""Lines and bands need no more, and the file is a quarter of its size."""
_FIGURES = "figures"


def keep(drawn: Path, kept: Path, figures: str) -> None:
    """Keep a picture that was drawn, with what it shows."""
    about = PngInfo()
    about.add_text(_FIGURES, figures, zip=True)
    with Image.open(drawn) as picture:
        few = picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    few.save(kept, optimize=True, pnginfo=about)


def pictured(kept: Path) -> str:
    """What a kept picture shows, as it was when it was drawn."""
    with Image.open(kept) as picture:
        return str(picture.info[_FIGURES])
