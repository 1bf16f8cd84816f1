from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import pytest
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from capsim.report.memory_figure import DPI, GIB, HEIGHT, WIDTH, draw_memory, memory_figure
from tests.report.results import stored

RESULTS = ("fit", "fit-log")


def legend(panel: Axes) -> str:
    return "; ".join(" ".join(label.split()) for label in panel.get_legend_handles_labels()[1])


def test_the_file_is_a_png_of_the_stated_size_and_the_same_each_time(tmp_path: Path) -> None:
    for name in ("a", "b"):
        memory_figure(stored("fit"), tmp_path / name)
    data = (tmp_path / "a").read_bytes()
    assert data == (tmp_path / "b").read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", data[16:24]) == (round(DPI * WIDTH), round(DPI * HEIGHT))


@pytest.mark.parametrize("name", RESULTS)
def test_the_bar_is_the_whole_memory_in_parts(name: str) -> None:
    result = stored(name)
    bar = draw_memory(result).axes[0]
    parts = [patch for patch in bar.patches if isinstance(patch, Rectangle)]
    total = result["memory"]["lines"][0]["bytes"] / GIB
    # A remainder below 0 is not drawn: the log's figures are rounded to 0.01 GiB.
    assert sum(part.get_width() for part in parts) == pytest.approx(total, abs=0.05)
    ends = [part.get_x() + part.get_width() for part in parts]
    assert [part.get_x() for part in parts[1:]] == ends[:-1]
    assert ("weights 14.99 GiB, measured" in legend(bar)) == (name == "fit-log")
    assert bar.get_xlabel() == f"memory of one GPU, GiB of {total:,.2f}"


@pytest.mark.parametrize("name", RESULTS)
def test_lines_meet_the_cache_where_sequences_no_longer_fit(name: str) -> None:
    result = stored(name)
    reach = draw_memory(result).axes[1]
    memory = result["memory"]
    pool, most = memory["lines"][-1]["bytes"] / GIB, memory["max_num_seqs"]
    marks = [
        (float(line.get_xdata()[0]), float(line.get_ydata()[0]))
        for line in reach.get_lines()
        if len(line.get_xdata()) == 1
    ]
    within = [sequence for sequence in memory["sequences"] if sequence["concurrency"] <= reach.get_xlim()[1]]
    assert marks == [
        (sequence["concurrency"], sequence["concurrency"] * sequence["bytes"] / GIB) for sequence in within
    ]
    assert all(held <= pool for _, held in marks)
    assert reach.get_xlim()[1] > most
    words = legend(reach)
    assert f"max_num_seqs {most:,}" in words
    assert "preemption" in words
    assert "p95 of the demand: 4,133 tokens" in words


@pytest.mark.parametrize("name", RESULTS)
def test_no_words_overlap(name: str) -> None:
    figure = draw_memory(stored(name))
    figure.draw_without_rendering()
    boxes = []
    for panel in figure.axes:
        found = panel.get_legend()
        assert found is not None
        boxes += [text.get_window_extent() for text in (*panel.texts, *found.get_texts())]
    assert [(a, b) for i, a in enumerate(boxes) for b in boxes[:i] if a.overlaps(b)] == []
    page = figure.bbox
    assert all(page.x0 <= box.x0 and box.x1 <= page.x1 for box in boxes)


def test_drawing_does_not_touch_pyplot() -> None:
    program = "import sys, capsim.report.memory_figure; sys.exit('matplotlib.pyplot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.parametrize(("pools", "place"), [(1, "on a replica"), (8, "in one of the replica's 8 KV pools")])
def test_sequences_are_counted_where_they_share_a_pool(pools: int, place: str) -> None:
    result = stored("fit")
    result["configuration"]["engine"]["data_parallel_size"] = pools
    assert draw_memory(result).axes[1].get_xlabel() == f"sequences at once {place}"
