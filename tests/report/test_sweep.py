from __future__ import annotations

from pathlib import Path

import pytest

from capsim.plan.sweep import make_sweep
from capsim.plan.sweep_axis import parse_axis
from capsim.plan.sweep_result import sweep_result
from capsim.report import Json
from capsim.report.sweep import sweep_text
from capsim.report.sweep_figure import Scale, draw_sweep, sweep_figure
from capsim.report.table import WIDTH
from capsim.scenario import load
from tests.report.test_text import in_order, row

SMALL = Path(__file__).parents[1] / "plan" / "small.yaml"
SHORT = ["plan.duration=10s", "plan.replications=4"]


def swept(*overs: str) -> Json:
    return sweep_result(
        make_sweep(lambda changes: load(SMALL, [*SHORT, *changes]), [parse_axis(over) for over in overs])
    )


@pytest.fixture(scope="module")
def rates() -> Json:
    return swept("rate=5/s,10/s,15/s,90/s")


@pytest.fixture(scope="module")
def pools() -> Json:
    return swept("engine.num_gpu_blocks=100,600,4000", "rate=5/s,20/s")


def test_a_sweep_begins_with_what_passes(rates: Json) -> None:
    in_order(
        sweep_text(rates),
        "small",
        "Over rate on 1 replica. Objectives: ttft p95 at most 400ms",
        "Pass: 5/s to 15/s.",
        "Overloaded: 90/s.",
        "TTFT and TPOT in ms",
        '"overloaded" fails',
        "Step cost: a stated linear cost",
    )


def test_a_row_has_the_points_figures(rates: Json) -> None:
    cells = row(sweep_text(rates), "10/s")
    point = rates["points"][1]["point"]
    assert cells[1] == "pass"
    assert float(cells[3]) == pytest.approx(point["goodput"][0], rel=1e-3)
    assert float(cells[5]) == pytest.approx(1000 * point["ttft"]["p95"][0], rel=1e-3)
    assert float(cells[8]) == pytest.approx(1000 * point["tpot"]["p95"][0], rel=1e-3)


def test_two_axes_have_a_column_each_and_what_does_not_fit_says_why(pools: Json) -> None:
    text = sweep_text(pools)
    assert row(text, "4000 20/s")[:3] == ["4000", "20/s", "pass"]
    assert row(text, "100 ")[2:5] == ["does", "not", "fit"]
    in_order(text, "Does not fit: num_gpu_blocks 100, rate 5/s", "does not fit: llama-3.1-8b on 1 x h200")


def test_lines_fit(rates: Json, pools: Json) -> None:
    for result in (rates, pools):
        assert max(map(len, sweep_text(result).splitlines())) <= WIDTH


def test_the_figure_has_a_panel_a_metric_and_a_series_a_combination(pools: Json) -> None:
    figure = draw_sweep(pools)
    labels = [panel.get_ylabel().split(",")[0] for panel in figure.axes]
    assert labels == ["goodput", "TTFT", "TPOT", "KV cache of\na replica"]
    names = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert {"5/s", "20/s", "pass"} <= set(names)


def test_the_figure_is_the_same_each_time(rates: Json, tmp_path: Path) -> None:
    for name in ("one.png", "two.png"):
        sweep_figure(rates, tmp_path / name)
    one, two = ((tmp_path / name).read_bytes() for name in ("one.png", "two.png"))
    assert one == two
    assert one[:4] == b"\x89PNG"


@pytest.mark.parametrize(
    ("values", "places", "logarithmic"),
    [
        (["2/s", "4/s"], [2, 4], False),
        (["1", "8", "64"], [1, 8, 64], True),
        (["bfloat16", "fp8"], [0, 1], False),
        (["1s", "900ms"], [0, 1], False),
        (["0", "100"], [0, 100], False),
    ],
)
def test_numbers_stand_where_they_are(values: list[str], places: list[float], logarithmic: bool) -> None:
    scale = Scale(values)
    assert scale.places == places
    assert scale.logarithmic is logarithmic
