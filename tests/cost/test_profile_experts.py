"""Profiles of mixtures of experts: what the file says of them, and what it is checked against."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from capsim.cost import BatchShape, Chunk, Profile, ProfileCost, load_profile
from capsim.errors import BadInput, Fault
from tests.cost.hardware import LLAMA_8B, MIXTRAL_8X7B
from tests.cost.profiles import TOKENS, document, write

EXPERTS = {"count": 8, "per_token": 2, "intermediate_size": 14336, "shared": 0, "dense_layers": 0}
MOE = {
    "name": "moe",
    "per": "tokens",
    "times": 32,
    "tag": "measured",
    "counts": TOKENS,
    "seconds": [max(6e-4, 1e-6 * n) for n in TOKENS],
}


def mixture(ranks: int = 1, holders: int | None = None) -> dict[str, Any]:
    """A profile of Mixtral-8x7B, new at each call."""
    content = document()
    provenance = content["provenance"]
    provenance["model"] |= {"name": "mixtral-8x7b", "vocabulary_size": 32000, "experts": dict(EXPERTS)}
    provenance |= {"tensor_parallel_size": ranks, "routing": "power_law_1.01"}
    if holders is not None:
        provenance["expert_parallel_size"] = holders
    content["operators"].append(dict(MOE))
    return content


def loaded(folder: Path, content: dict[str, Any]) -> Profile:
    return load_profile(write(folder, content))


def asked(profile: Profile, ranks: int, expert_parallel: bool) -> ProfileCost:
    return ProfileCost(profile, MIXTRAL_8X7B, "bfloat16", "bfloat16", ranks, expert_parallel=expert_parallel)


def test_experts_are_an_operator_of_every_layer_that_has_them(tmp_path: Path) -> None:
    profile = loaded(tmp_path, mixture())
    assert profile.provenance.experts == MIXTRAL_8X7B.experts
    assert (profile.provenance.expert_parallel_size, profile.provenance.routing) == (1, "power_law_1.01")
    cost = asked(profile, 1, expert_parallel=False)
    dense = ProfileCost(loaded(tmp_path, document()), LLAMA_8B, "bfloat16", "bfloat16", 1)
    batch = BatchShape((Chunk(248, 0),), 8, 8 * 500)  # 256 tokens, a measured count
    assert cost.parts(batch)["moe"] == pytest.approx(32 * 6e-4, rel=1e-12)
    assert cost.step(batch) - dense.step(batch) == pytest.approx(32 * 6e-4, rel=1e-9)
    assert "power_law_1.01 routing" in cost.description


def test_a_dense_profile_states_none_of_it(tmp_path: Path) -> None:
    stated = loaded(tmp_path, document()).provenance
    assert (stated.experts, stated.expert_parallel_size, stated.routing) == (None, 1, "")
    assert not stated.expert_parallel


@pytest.mark.parametrize(("holders", "expert_parallel"), [(None, False), (1, False), (2, True)])
def test_whole_experts_on_the_ranks_have_a_profile_of_their_own(
    tmp_path: Path, holders: int | None, expert_parallel: bool
) -> None:
    profile = loaded(tmp_path, mixture(2, holders))
    cost = asked(profile, 2, expert_parallel)
    assert ("expert-parallel" in cost.description) == expert_parallel
    with pytest.raises(BadInput) as caught:
        asked(profile, 2, not expert_parallel)
    fault = caught.value.faults[0]
    assert isinstance(fault, Fault)
    assert fault.key == "provenance.expert_parallel_size"
    found, wanted = (2, 1) if expert_parallel else (1, 2)
    assert f"holds for {found}, the scenario asks for {wanted} (mixtral-8x7b)" in str(caught.value)


def test_one_rank_holds_all_experts_either_way(tmp_path: Path) -> None:
    profile, batch = loaded(tmp_path, mixture()), BatchShape((), 8, 4000)
    steps = [asked(profile, 1, expert_parallel).step(batch) for expert_parallel in (False, True)]
    assert steps[0] == steps[1]


def test_dense_and_mixed_models_refuse_each_others_profiles(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="holds for 8 experts, the scenario asks for no experts"):
        ProfileCost(loaded(tmp_path, mixture()), LLAMA_8B, "bfloat16", "bfloat16", 1)
    with pytest.raises(BadInput, match="holds for no experts, the scenario asks for 8 experts"):
        asked(loaded(tmp_path, document()), 1, expert_parallel=False)


def test_other_experts_are_refused_by_name(tmp_path: Path) -> None:
    assert MIXTRAL_8X7B.experts is not None
    model = replace(MIXTRAL_8X7B, experts=replace(MIXTRAL_8X7B.experts, per_token=4, shared=1))
    with pytest.raises(BadInput) as caught:
        ProfileCost(loaded(tmp_path, mixture()), model, "bfloat16", "bfloat16", 1)
    keys = [fault.key for fault in caught.value.faults if isinstance(fault, Fault)]
    assert keys == ["provenance.model.experts.per_token", "provenance.model.experts.shared"]
    assert "holds for 2, the scenario asks for 4" in str(caught.value)


def _provenance(**changes: object) -> Callable[[dict[str, Any]], None]:
    return lambda content: content["provenance"].update(changes)


def _experts(**changes: object) -> Callable[[dict[str, Any]], None]:
    return lambda content: content["provenance"]["model"]["experts"].update(changes)


def _moe(**changes: object) -> Callable[[dict[str, Any]], None]:
    return lambda content: content["operators"][-1].update(changes)


def _without(name: str) -> Callable[[dict[str, Any]], None]:
    return lambda content: content["provenance"]["model"]["experts"].pop(name)


DAMAGES = [
    (_provenance(pipeline_parallel_size=2), r"pipeline_parallel_size: 2 stages.*, expected 1"),
    (_provenance(expert_parallel_size=2), r"expert_parallel_size: 2, expected 1 or tensor_parallel_size 4"),
    (_provenance(expert_parallel_size=0), r"expert_parallel_size: 0, expected a whole number of at least 1"),
    (_provenance(routing=""), r"provenance\.routing: '', expected a text"),
    (_without("shared"), r"experts\.shared: is missing"),
    (_experts(shared=-1), r"experts\.shared: -1, expected a whole number of at least 0"),
    (_experts(kind="sparse"), r"experts\.kind: is not a key here"),
    (_experts(per_token=9), r"experts\.per_token: 9, expected at most the 8 experts"),
    (_experts(dense_layers=32), r"experts\.dense_layers: 32, expected fewer than the 32 layers"),
    (_moe(times=31), r"operators\[3\]: the experts of 31 layers, per tokens, expected those of the 32 lay"),
    (_moe(per="sequences"), r"operators\[3\]: the experts of 32 layers, per sequences"),
]


@pytest.mark.parametrize(("damage", "message"), DAMAGES)
def test_damage_is_refused_with_its_key(
    tmp_path: Path, damage: Callable[[dict[str, Any]], None], message: str
) -> None:
    content = mixture(4)
    damage(content)
    with pytest.raises(BadInput, match=message) as caught:
        loaded(tmp_path, content)
    assert len(caught.value.faults) == 1


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_provenance(routing="balanced"), r"routing: 'balanced' of a model without experts"),
        (_provenance(expert_parallel_size=2), r"expert_parallel_size: 2, expected 1 \(the model has no exp"),
        (lambda content: content["operators"].append(dict(MOE)), r"those of the 0 layers with experts"),
    ],
)
def test_a_dense_profile_has_nothing_of_experts(
    tmp_path: Path, damage: Callable[[dict[str, Any]], None], message: str
) -> None:
    content = document()
    damage(content)
    with pytest.raises(BadInput, match=message):
        loaded(tmp_path, content)


def test_no_pipeline_may_be_stated(tmp_path: Path) -> None:
    content = mixture()
    content["provenance"]["pipeline_parallel_size"] = 1
    assert loaded(tmp_path, content).provenance.experts == MIXTRAL_8X7B.experts
