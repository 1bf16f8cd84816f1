"""The roofline's factors of experts, fitted to tables of kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from calibrate.grouped import FACTORS, ExpertTimes, held_out, quantiles
from capsim.catalog import load_gpu
from capsim.cost import Efficiency, RooflineCost
from capsim.cost.experts import ExpertLayer
from tests.cost.hardware import A100, H200, MIXTRAL_8X7B, QWEN3_30B_A3B

TOKENS = np.array([1, 2, 8, 32, 64, 256, 1024, 4096, 16384])
USED = {name: getattr(Efficiency(), name) for name in FACTORS}
SHAPES = {"mixtral": (4096, 14336, 2, 8), "qwen3": (2048, 768, 8, 128)}
Columns = dict[str, NDArray[Any]]


def columns(shape: tuple[int, ...], ranks: int = 1, dealt: int = 1, seconds: float = 1e-3) -> Columns:
    names = ("hidden", "inter", "topk", "experts", "tp", "ep")
    values = (*shape, ranks // dealt, dealt)
    return {
        **{name: np.full(len(TOKENS), value) for name, value in zip(names, values, strict=True)},
        "tokens": TOKENS,
        "seconds": np.full(len(TOKENS), seconds),
        "routing": np.full(len(TOKENS), "balanced"),
    }


def computed(factors: dict[str, float], noise: float = 0.0) -> ExpertTimes:
    """Three tables of two shapes that these factors explain, but for noise."""
    random = np.random.default_rng(1)
    parts = []
    for dtype in ("bfloat16", "fp8_block", "int4_wo"):
        for shape in SHAPES.values():
            plain = ExpertTimes.of(columns(shape, seconds=1.0), load_gpu("h200"), "engine 1.0", dtype)
            seconds = (plain.errors(factors) + 1) * np.exp(noise * random.standard_normal(len(TOKENS)))
            parts.append(
                ExpertTimes.of(columns(shape) | {"seconds": seconds}, load_gpu("h200"), "engine 1.0", dtype)
            )
    return ExpertTimes.joined(parts)


@pytest.mark.parametrize(
    ("dtype", "ours", "gpu", "ranks", "dealt"),
    [
        ("bfloat16", "bfloat16", H200, 1, 1),
        ("bfloat16", "bfloat16", H200, 4, 1),
        ("bfloat16", "bfloat16", H200, 4, 4),
        ("fp8_block", "fp8", H200, 2, 1),
        ("fp8", "fp8", A100, 1, 1),
        ("int4_wo", "int4", H200, 1, 1),
    ],
)
def test_what_is_fitted_is_what_the_roofline_computes(
    dtype: str, ours: str, gpu: Any, ranks: int, dealt: int
) -> None:
    for model, shape in ((MIXTRAL_8X7B, SHAPES["mixtral"]), (QWEN3_30B_A3B, SHAPES["qwen3"])):
        times = ExpertTimes.of(columns(shape, ranks, dealt), gpu, "engine 1.0", dtype)
        cost = RooflineCost(model, gpu, ranks, ours, expert_parallel=dealt > 1)
        layer = cost.operators.experts
        assert isinstance(layer, ExpertLayer)
        expected = [layer.chosen_seconds(int(tokens)) / 1e-3 - 1 for tokens in TOKENS]
        assert times.errors(USED) == pytest.approx(expected, rel=1e-9, abs=1e-9)  # sums in another order


def test_factors_are_found_again() -> None:
    factors = dict(zip(FACTORS, (20e-6, 40e-6, 0.8, 0.5, 0.25), strict=True))
    assert computed(factors).fitted() == pytest.approx(
        factors, rel=1e-3
    )  # the rounds end before the last digit


def test_one_table_that_is_far_off_does_not_move_them() -> None:
    """A sum of sizes, not of squares: with every fp8 time of one table fivefold the factors move by a few percent."""
    factors = dict(zip(FACTORS, (20e-6, 40e-6, 0.8, 0.5, 0.25), strict=True))
    plain = computed(factors, noise=0.05)
    odd = np.char.endswith(plain.kernel, "fp8_block") & (plain.model == "2048 768 8 128")
    slow = ExpertTimes(
        np.where(odd, 5 * plain.seconds, plain.seconds), *(getattr(plain, name) for name in NAMES[1:])
    )
    found, moved = plain.fitted(), slow.fitted()
    assert moved["expert_compute"] == pytest.approx(found["expert_compute"], rel=0.05)
    assert moved["expert_bandwidth"] == pytest.approx(found["expert_bandwidth"], rel=0.15)


NAMES = tuple(ExpertTimes.__annotations__)


def test_a_table_of_one_precision_shows_its_own_factors_alone() -> None:
    times = computed(USED)
    wide = times.where(np.char.endswith(times.kernel, "bfloat16"))
    assert set(wide.fitted()) == {"expert_latency", "expert_bandwidth", "expert_compute"}


def test_experts_of_two_matrices_are_left_out() -> None:
    times = ExpertTimes.of(columns((2688, 1856, 6, 128)), load_gpu("h200"), "engine 1.0", "bfloat16")
    assert len(times.seconds) == 0


def test_left_out_rows_are_judged_by_factors_that_never_saw_them() -> None:
    times = computed(USED)
    slow = times.model == "2048 768 8 128"
    doubled = ExpertTimes(
        np.where(slow, 2 * times.seconds, times.seconds), *(getattr(times, name) for name in NAMES[1:])
    )
    errors = dict(held_out(doubled, doubled.model))
    assert list(errors) == ["2048 768 8 128", "4096 14336 2 8"]
    assert quantiles(errors["2048 768 8 128"])[1] == pytest.approx(
        -0.5, abs=0.02
    )  # fitted to one shape alone
