"""The picture of the knee in the tutorial: the quick start's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.docs.page import ROOT
from tests.docs.picture import keep

PICTURE = ROOT / "docs" / "tutorial" / "knee.png"


def save_knee(folder: Path) -> None:
    """Keep the picture of a run folder."""
    keep(folder / "knee.png", PICTURE, knee_figures(folder))


def knee_figures(folder: Path) -> str:
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
