"""A validation in print and as a picture, from its plain data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from capsim.report import Json
from capsim.report.table import WIDTH
from capsim.report.validation import signed, validation_text
from capsim.report.validation_figure import draw_overlay, overlay_figure

STATISTICS = ("mean", "p50", "p90", "p95", "p99")


def figures(measured: float, error: float, errors: list[float] | None = None) -> Json:
    return {
        name: {
            "measured": measured * (1 + i),
            "simulated": measured * (1 + i) * (1 + error),
            "error": error,
            "errors": errors,
        }
        for i, name in enumerate(STATISTICS)
    }


def run(name: str, rate: float, **changes: Any) -> Json:
    metrics = {"ttft": figures(0.05, -0.031), "tpot": figures(0.01, 0.02)}
    curve = np.linspace(0.01, 0.2, 51).tolist()
    return {
        "name": name,
        "file": f"bench/{name}.json",
        "sha256": "",
        "tool": "vllm bench serve",
        "model": "small",
        "fitted": False,
        "overloaded": "",
        "counts": True,
        "load": {
            "kind": "replayed",
            "rate": rate,
            "stated_rate": rate,
            "burstiness": 1.0,
            "most_open": None,
            "replications": 1,
            "saturated_rate": 40.0,
            "measured_rate": rate,
            "measured_concurrency": rate / 2,
            "simulated_concurrency": rate / 2,
        },
        "requests": {
            "in_file": 100,
            "answered": 100,
            "simulated": 100,
            "compared": 100,
            "not_completed_in_simulation": 0,
        },
        "metrics": metrics,
        "curves": {metric: {"measured": curve, "simulated": curve} for metric in metrics},
        "unchecked": ["ITL: the file has none"],
        "notes": ["p99 of 100 requests rests on the slowest 1"],
        **changes,
    }


def result(*runs: Json, **changes: Any) -> Json:
    score = {"ttft": {name: {"worst": -0.031, "mean_size": 0.03, "runs": 1} for name in STATISTICS}}
    return {
        "scenario": "small",
        "capsim_version": "0",
        "fingerprint": "f" * 16,
        "seed": 1,
        "comparable": {"model": "llama-3.1-8b", "dtype": "bfloat16", "engine": "vllm 0"},
        "service": {
            "fingerprint": "e" * 16,
            "replicas": 1,
            "router": "round_robin",
            "step_cost": {"source": "stated", "description": "every step takes 8 ms"},
            "gateway": 0.0,
        },
        "inside_budget": None,
        "budget": None,
        "misses": [],
        "validated": {
            "runs": ["a"],
            "rates": [2.0, 7.0],
            "rates_per_replica": [2.0, 7.0],
            "concurrency": [1.0, 3.5],
        },
        "score": score,
        "fit": None,
        "runs": list(runs),
        "notes": ["the scenario's failures are left out"],
        "not_modelled": ["asynchronous scheduling"],
        **changes,
    }


def section(text: str, title: str) -> str:
    return next(part for part in text.split("\n\n") if part.startswith(title))


def test_errors_have_their_sign() -> None:
    assert [signed(error) for error in (-0.031, 0.02, 0.0, None)] == ["-3.1%", "+2.0%", "+0.0%", "-"]


def test_runs_stand_by_load() -> None:
    text = validation_text(result(run("busy", 7.0), run("calm", 2.0)))
    lines = section(text, "Error by load").splitlines()[4:]
    assert [line.split()[0] for line in lines] == ["calm", "busy"]
    assert lines[0].split()[1:] == ["2", "1", "-3.1%", "-3.1%", "+2.0%", "+2.0%", "-", "counts"]


def test_what_is_not_judged_is_named() -> None:
    fit = {"runs": ["a"], "host_overhead": 1e-3, "gateway_latency": 5e-3, "residual": 0.01, "searches": 9}
    runs = (
        run("a", 2.0, fitted=True, counts=False),
        run("b", 50.0, overloaded="offered 50/s, saturated at 40/s", counts=False),
        run("c", 3.0, metrics={}, curves={}, counts=False, unchecked=["nothing of it: no requests"]),
    )
    text = validation_text(result(*runs, fit={**fit, "score_without": {}}, score={}))
    assert "0 of 3 runs count; fitted on: a; overloaded: b; not checked: c." in text
    assert "a (FITTED)" in text
    assert "b (OVERLOADED)" in text
    assert "Latencies depend on how long the run was" in text
    assert "1ms more in every step, 5ms more in the gateway" in text
    assert "c: nothing of it: no requests." in section(text, "NOT CHECKED")


@pytest.mark.parametrize(("inside", "words"), [(True, "  INSIDE THE"), (False, "  NOT INSIDE THE")])
def test_the_verdict_stands_first(inside: bool, words: str) -> None:
    budget = {"ttft": 0.1, "statistics": ["mean", "p50", "p95"]}
    misses = [] if inside else ["TTFT p95 of a is off by +12%"]
    text = validation_text(result(run("a", 2.0), inside_budget=inside, budget=budget, misses=misses))
    lines = section(text, "RESULT").splitlines()
    assert lines[1].startswith(f"{words} BUDGET of TTFT 10%")
    assert ("- TTFT p95 of a is off by +12%." in text) is not inside


def test_the_spread_of_drawn_arrivals_is_shown() -> None:
    drawn = run("a", 2.0, metrics={"ttft": figures(0.05, -0.03, [-0.08, 0.01])})
    rows = {line.strip().split("  ")[0]: line for line in validation_text(result(drawn)).splitlines()}
    assert rows["least of the runs"].split()[-1] == "-8.0%"
    assert rows["greatest"].split()[-1] == "+1.0%"


def test_lines_are_not_too_long() -> None:
    long = run(
        "a" * 150, 2.0, metrics={name: figures(123.4, 12.34) for name in ("ttft", "tpot", "itl", "e2e")}
    )
    assert max(map(len, validation_text(result(long, run("b", 7.0))).splitlines())) <= WIDTH


def test_the_overlay_shows_every_run_and_metric() -> None:
    figure = draw_overlay(result(run("a", 2.0), run("b", 7.0, counts=False, fitted=True)))
    panels = figure.axes
    assert len(panels) == 3 * 2
    assert [line.get_label() for line in panels[0].lines if not line.get_label().startswith("_")] == [
        "p50 measured",
        "p50 simulated",
        "p95 measured",
        "p95 simulated",
    ]
    assert "b FITTED" in panels[4].get_ylabel()
    shown = panels[0].lines[0].get_ydata()
    assert list(shown) == pytest.approx([100.0, 100.0])  # p50 of the made-up run, ms


def test_the_same_result_gives_the_same_picture(tmp_path: Path) -> None:
    for name in ("one", "two"):
        overlay_figure(result(run("a", 2.0)), tmp_path / f"{name}.png")
    assert (tmp_path / "one.png").read_bytes() == (tmp_path / "two.png").read_bytes()


def test_many_runs_fit_on_a_picture() -> None:
    figure = draw_overlay(result(*(run(f"r{i}", 1.0 + i) for i in range(30))))
    assert len(figure.axes) == 13 * 2
    assert "r0" in figure.axes[2].get_ylabel()
    assert "r29" in figure.axes[-2].get_ylabel()


def test_nothing_checked_is_a_picture_too() -> None:
    bare = run("a", 2.0, metrics={}, curves={}, counts=False)
    figure = draw_overlay(result(bare, score={}))
    assert "no run could be checked" in [text.get_text() for text in figure.axes[0].texts]
