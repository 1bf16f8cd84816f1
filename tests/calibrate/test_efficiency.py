"""The roofline's factors, read off measured tables."""

from __future__ import annotations

from dataclasses import replace

import pytest

from calibrate.efficiency import Spread, efficiencies, efficiency_of, expert_efficiencies, spread
from capsim.catalog import Model, gpu_names, load_gpu, load_model, model_names
from capsim.catalog.data import data_names, data_path
from capsim.cost import Efficiency, Profile, load_profile
from capsim.cost.curve import Curve

PROFILES = [load_profile(data_path("profiles", name)) for name in data_names("profiles", (".json",))]
MODELS = {name: load_model(name) for name in model_names()}
GPUS = {name: load_gpu(name) for name in gpu_names()}
READ_OFF = {"h200": 8, "rtx-4090": 1, "rtx-pro-6000": 2}
"""Dense profiles by GPU that the factors are medians of. Those of other GPUs came later and test them; an H100's would
count the H200's chip twice."""


def scaled(profile: Profile, factor: float) -> Profile:
    """The profile of a GPU whose matrix products take `factor` times as long."""

    def slower(curve: Curve) -> Curve:
        return Curve.through(curve.points, [factor * value for value in curve.values])

    operators = [
        replace(each, seconds=slower(each.seconds), aligned=slower(each.aligned) if each.aligned else None)
        for each in profile.operators
    ]
    return replace(profile, operators=tuple(operators))


@pytest.fixture
def h200() -> tuple[Profile, Model]:
    return load_profile(data_path("profiles", "h200-llama-3.1-8b-bf16-tp1.json")), load_model("llama-3.1-8b")


def test_by_hand(h200: tuple[Profile, Model]) -> None:
    """One layer's four products of Llama-3.1-8B: 218 million weights, 436 MB, read at 4.8 TB/s in 90.9 us at best."""
    profile, model = h200
    found = efficiency_of(profile, model, load_gpu("h200"))
    gemms = ("qkv_proj", "o_proj", "gate_up_proj", "down_proj")
    one = sum(each.at(1) / each.times for each in profile.operators if each.name in gemms)
    weights = 4096 * (4096 + 2 * 1024 + 4096) + 3 * 4096 * 14336
    assert found["gemm_bandwidth"] == pytest.approx(2 * weights / 4.8e12 / one, rel=1e-12)
    attention = profile.attention.decode.row(64).at(2048)
    assert found["attention_bandwidth"] == pytest.approx(64 * 2048 * 4096 / 4.8e12 / attention, rel=1e-12)


def test_slower_products_halve_their_factors_and_no_other(h200: tuple[Profile, Model]) -> None:
    profile, model = h200
    before, after = (efficiency_of(each, model, load_gpu("h200")) for each in (profile, scaled(profile, 2.0)))
    ratios = {name: after[name] / before[name] for name in before}
    assert ratios == pytest.approx(
        {
            "gemm_compute": 0.5,
            "gemm_bandwidth": 0.5,
            "attention_compute": 1.0,
            "attention_bandwidth": 1.0,
            "attention_latency": 1.0,
        }
    )


def test_spread() -> None:
    assert spread([{"a": 3.0}, {"a": 1.0}, {"a": 2.0}]) == {"a": Spread(2.0, 1.0, 3.0, 3)}
    assert spread([{"a": 3.0}, {"a": 1.0}])["a"].median == 2.0
    assert spread([]) == {}


def test_every_measured_dense_profile_is_in_the_spread() -> None:
    dense = [profile for profile in PROFILES if profile.provenance.experts is None]
    assert not any(profile.provenance.derived_from for profile in dense)
    assert len(efficiencies(PROFILES, MODELS, GPUS)) == len(dense)


def test_no_shipped_profile_beats_its_data_sheet() -> None:
    """But for the RTX 4090, whose clock goes 0.01 % above the one its data sheet counts with."""
    for found in efficiencies(PROFILES, MODELS, GPUS):
        latency = found.pop("attention_latency")
        assert all(0 < share <= 1.001 for share in found.values()), found
        assert 1e-6 < latency < 1e-4


def test_mixtures_of_experts_and_what_the_catalog_lacks_are_left_out(h200: tuple[Profile, Model]) -> None:
    dense = h200[0]
    mixture = next(profile for profile in PROFILES if profile.provenance.experts is not None)
    assert len(efficiencies([dense, mixture], MODELS, GPUS)) == 1
    assert efficiencies([dense], {}, GPUS) == efficiencies([dense], MODELS, {}) == []


def test_experts_show_factors_of_their_own_where_none_are_dealt_out() -> None:
    mixtures = [each for each in PROFILES if each.provenance.experts is not None]
    whole = [each for each in mixtures if not each.provenance.expert_parallel]
    found = expert_efficiencies(PROFILES, MODELS, GPUS)
    assert 0 < len(found) == len(whole) < len(mixtures)
    for factors in found:
        assert set(factors) == {
            "expert_latency",
            "expert_bandwidth",
            "expert_compute",
        }  # all have 16-bit weights
        # The shapes of two models and the kernels of one engine: faster than the factors in use, which stand for more.
        assert 10e-6 < factors["expert_latency"] < 35e-6
        assert 0.8 < factors["expert_bandwidth"] < 1
        assert 0.6 < factors["expert_compute"] < 1


def test_the_factors_in_use_are_the_medians_of_the_profiles() -> None:
    """Of those that they name, to the two digits that `Efficiency` states."""
    used, gpus = Efficiency(), {name: GPUS[name] for name in READ_OFF}
    found = spread(efficiencies(PROFILES, MODELS, gpus))
    for name, factor in found.items():
        assert factor.profiles == sum(READ_OFF.values())
        assert getattr(used, name) == pytest.approx(factor.median, rel=0.02), name
