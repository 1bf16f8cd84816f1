from __future__ import annotations

from typing import Any

from capsim.report.page.tag import DERIVED, simulated, step_parts, tag


def cost(source: str = "measured", **figures: str) -> dict[str, Any]:
    return {
        "source": source,
        "figures": {name: {"value": 1.0, "tag": word} for name, word in figures.items()},
    }


def test_a_simulated_figure_says_everything_that_its_steps_rest_on() -> None:
    known = simulated(cost(qkv="measured", gate="fitted", host="assumed"), 0.03)
    assert known.words == ("measured", "fitted", "assumed", "extrapolated")
    for said in ("gate fitted", "host assumed", "3% of its steps outside"):
        assert said in known.reason


def test_few_steps_outside_the_measured_range_are_not_extrapolation() -> None:
    assert simulated(cost(qkv="measured"), 0.009).words == ("measured",)
    assert simulated(cost(qkv="measured"), None).words == ("measured",)


def test_without_a_measured_step_every_simulated_figure_is_assumed() -> None:
    assert simulated(cost("analytic", gemm="measured"), 0.0).words == ("assumed",)
    assert simulated(cost("stated"), None).words == ("assumed",)


def test_kernels_of_another_gpu_are_never_called_measured() -> None:
    known = simulated(cost("derived", qkv="derived", host="assumed"), 0.0)
    assert known.words == ("assumed", "extrapolated")
    assert "not measured on this GPU" in known.reason


def test_parts_are_grouped_by_how_they_are_known() -> None:
    assert step_parts(cost(a="measured", b="assumed", c="measured")) == {
        "measured": ["a", "c"],
        "assumed": ["b"],
    }


def test_a_word_that_is_not_known_is_derived() -> None:
    assert tag("guessed").words == DERIVED.words
    assert tag("data sheet", "H200").reason == "H200"
