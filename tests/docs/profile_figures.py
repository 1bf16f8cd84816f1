"""The pictures of the quick start's profile: what its kernels reach, and the roofline beside it."""

from __future__ import annotations

import tempfile
from pathlib import Path

from calibrate.figures import write_figures
from calibrate.intensity import ceilings, decode_points, gemm_points, prefill_points
from tests.docs.page import ROOT
from tests.docs.picture import keep
from tests.docs.profile_tables import H200, shown

FOLDER = ROOT / "docs" / "background"
PICTURES = ("roofline", "parity")
"""Of those that ``capsim calibrate show --out`` writes."""


def save_profile_figures() -> None:
    """Draw and keep them."""
    with tempfile.TemporaryDirectory() as folder:
        write_figures(shown(H200), Path(folder))
        for name in PICTURES:
            keep(Path(folder) / f"{name}.png", kept(name), profile_figures(name))


def kept(name: str) -> Path:
    """Where a picture is kept."""
    return FOLDER / f"{name}.png"


def profile_figures(name: str) -> str:
    """What a picture shows, to 4 digits."""
    found = shown(H200)
    if name == "parity":
        rows = [list(pair) for pair in zip(found.tables, found.lines, strict=True)]
    else:
        series = (gemm_points(found), prefill_points(found), decode_points(found))
        rows = [[point.intensity, point.flops] for points in series for point in points.points]
        rows += [[ceiling.bandwidth, ceiling.flops] for ceiling in ceilings(found)]
    return "\n".join(" ".join(f"{value:.4g}" for value in row) for row in rows)
