from __future__ import annotations

from capsim.cost import Efficiency


def roofline_figures() -> list[str]:
    """What the roofline takes from elsewhere than data sheets, as Markdown."""
    rows = [
        f"| `{name}` | {figure.value:g} | {figure.tag} | {figure.source} |"
        for name, figure in Efficiency().describe().items()
    ]
    return ["", "| Figure | Value | Tag | Source |", "| --- | --- | --- | --- |", *rows, ""]
