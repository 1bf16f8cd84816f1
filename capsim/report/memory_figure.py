"""Memory as a picture: what a GPU's memory is used for, and how far the KV cache reaches."""

from __future__ import annotations

import math
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from capsim.report import Json
from capsim.report.evidence import SEQUENCES
from capsim.report.named import named
from capsim.report.number import count

DPI = 150
WIDTH, HEIGHT = 11.0, 7.0
"""Inches."""
GIB = 2**30
PARTS = {
    "weights": ("#0072B2", ""),
    "activations": ("#E69F00", "//"),
    "outside PyTorch": ("#CC79A7", ""),
    "communication": ("#F0E442", "\\\\"),
    "CUDA graphs": ("#D55E00", ""),
    "not accounted for": ("0.55", ".."),
    "KV cache": ("#009E73", ""),
    "outside the budget": ("0.9", "//"),
}
"""Parts of the memory in the order they are drawn, with Okabe and Ito's colours; hatches for print in grey."""
LINES = {
    "p50": ("#56B4E9", "-"),
    "mean": ("#0072B2", "-"),
    "p95": ("#D55E00", "--"),
    "longest": ("0.2", ":"),
}
"""Colour and line of sequences of one length."""
ROOM = 1.25
"""The axis of sequences ends this far beyond the limit on them, or beyond what fits."""
NARROW = 0.035
"""Share of the bar below which a part has no words in it; the legend has them all."""


def memory_figure(result: Json, path: Path) -> None:
    """Write memory and KV capacity as a PNG; the same answer gives the same bytes.

    Args:
        result: as `capsim.plan.fit_result.fit_result` gives it.
        path: of the file.
    """
    draw_memory(result).savefig(path, format="png", dpi=DPI, metadata={"Software": None})


def draw_memory(result: Json) -> Figure:
    """A stacked bar of one GPU's memory, and live tokens against sequences at once beside the KV cache."""
    figure = Figure(figsize=(WIDTH, HEIGHT), layout=ConstrainedLayoutEngine(h_pad=0.08, w_pad=0.08))
    FigureCanvasAgg(figure)
    bar, reach = figure.subplots(2, 1, gridspec_kw={"height_ratios": [1, 2.6]})
    _bar(bar, result["memory"])
    _reach(reach, result["memory"], result["capacity"])
    for panel in (bar, reach):
        panel.legend(
            loc="upper left", bbox_to_anchor=(1.01, 1.02), borderaxespad=0, frameon=False, fontsize=9
        )
    configuration, same = result["configuration"], result["comparable"]
    engine = configuration["engine"]
    pools = engine.get("data_parallel_size", 1)
    place = "on a replica" if pools == 1 else f"in one of the replica's {pools} KV pools"
    reach.set_xlabel(f"sequences at once {place}")
    gpus = math.prod(engine.get(f"{kind}_parallel_size", 1) for kind in ("tensor", "pipeline", "data"))
    figure.suptitle(
        f"{result['scenario']}: memory of one replica of {same['model']} on {gpus} x {named(configuration, 'gpu')}\n"
        f"{same['engine']}, weights {same['dtype']}, KV cache {same['kv_cache_dtype']}",
        fontsize=12,
    )
    return figure


def _bar(panel: Axes, memory: Json) -> None:
    sizes = {line["name"]: line for line in memory["lines"]}
    total = sizes["GPU memory"]["bytes"] / GIB
    left = 0.0
    for name, (colour, hatch) in PARTS.items():
        line = sizes.get(name)
        # A part that the log shows smaller than the model takes nothing: the table has its sign.
        size = 0.0 if line is None else (line["bytes"] if name == "KV cache" else -line["bytes"]) / GIB
        if line is None or size <= 0:
            continue
        label = f"{name} {size:,.2f} GiB, {line['tag']}"
        panel.barh(
            0, size, left=left, color=colour, hatch=hatch, edgecolor="white", linewidth=0.8, label=label
        )
        if size > NARROW * total:
            box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 1.5}
            panel.text(left + size / 2, 0, f"{size:,.1f}", ha="center", va="center", fontsize=9, bbox=box)
        left += size
    panel.set_xlim(0, max(left, total))
    panel.set_ylim(-0.5, 0.5)
    panel.set_yticks([])
    panel.set_xlabel(f"memory of one GPU, GiB of {total:,.2f}")


def _reach(panel: Axes, memory: Json, capacity: Json) -> None:
    """KV cache held by so many sequences of each length; where a line leaves the pool, preemption starts."""
    most, pool = memory["max_num_seqs"], memory["lines"][-1]["bytes"] / GIB
    right = ROOM * most
    for sequence in memory["sequences"]:
        colour, line = LINES[sequence["name"]]
        fit = sequence["concurrency"]
        said = f"{SEQUENCES[sequence['name']]}: {count(sequence['tokens'])} tokens,\n{count(fit)} fit at once"
        _ray(panel, sequence["bytes"] / GIB, right, pool, color=colour, linestyle=line, label=said)
        if fit <= right:
            panel.plot([fit], [fit * sequence["bytes"] / GIB], color=colour, marker="o", markersize=6)
    said = f"as they run: {count(capacity['live_tokens_per_sequence'])} tokens on average"
    size = capacity["live_bytes_per_sequence"] / GIB
    _ray(panel, size, right, pool, color="#009E73", linestyle="-.", label=said)
    said = f"KV cache: {count(memory['kv_tokens'])} tokens"
    panel.axhline(pool, color="black", linewidth=1.4, label=said)
    panel.axhspan(pool, ROOM * pool, facecolor="0.93", edgecolor="0.75", hatch="///", linewidth=0, zorder=0)
    panel.fill([], [], facecolor="0.93", edgecolor="0.6", hatch="///", linewidth=0, label="preemption")
    said = f"max_num_seqs {count(most)}"
    panel.axvline(most, color="#CC79A7", linewidth=1.6, linestyle=(0, (3, 1, 1, 1)), label=said)
    panel.set_xlim(0, right)
    panel.set_ylim(0, ROOM * pool)
    panel.grid(visible=True, color="0.9", linewidth=0.6)
    panel.set_axisbelow(True)
    panel.set_ylabel("KV cache that they hold,\nGiB of one GPU")


def _ray(panel: Axes, size: float, right: float, pool: float, **style: str) -> None:
    """A line from nothing upwards by `size` GiB a sequence, to the edge of the panel."""
    end = min(right, ROOM * pool / size)
    panel.plot([0, end], [0, end * size], **style)  # type: ignore[arg-type]
