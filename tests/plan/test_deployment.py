from pathlib import Path

import pytest

from capsim.cost import BatchShape, ProfileCost, RooflineCost
from capsim.errors import BadInput
from capsim.plan.deployment import build_cost, count_memory, deploy
from capsim.plan.experiment import Experiment, perform, record
from capsim.plan.result import run_result
from capsim.plan.simulation import Simulation
from capsim.scenario import load

SHIPPED = Path(__file__).parents[2] / "configs" / "scenarios" / "chat-llama-3.1-8b-h200.yaml"


def test_a_pipeline_is_refused_with_its_reason_and_its_memory_is_counted() -> None:
    scenario = load(SHIPPED, ["engine.pipeline_parallel_size=2"])
    with pytest.raises(BadInput, match="micro-batches in flight"):
        build_cost(scenario)
    assert count_memory(scenario).bytes_per_token == 16 * 2 * 8 * 128 * 2


def test_experts_and_their_routing_reach_the_cost_and_the_memory() -> None:
    roofline = "step_cost={source: roofline}"
    settings = [
        roofline,
        "model=qwen3-30b-a3b",
        "engine.tensor_parallel_size=4",
        "engine.max_model_len=16384",
    ]
    dealt = [*settings, "engine.enable_expert_parallel=true"]
    split, parallel, skewed = (
        load(SHIPPED, overrides) for overrides in (settings, dealt, [*dealt, "step_cost.routing_skew=1"])
    )
    batch = BatchShape((), 64, 64 * 1024)
    costs = [build_cost(scenario) for scenario in (split, parallel, skewed)]
    assert all(isinstance(cost, RooflineCost) for cost in costs)
    assert len({cost.step(batch) for cost in costs}) == 3
    notes = [line.note for line in count_memory(parallel).lines if line.name == "weights"]
    assert notes == ["bfloat16, TP 4 with whole experts"]


def test_a_profile_of_another_gpu_is_refused() -> None:
    with pytest.raises(BadInput, match="measured on h200, the scenario asks for h100-sxm"):
        build_cost(load(SHIPPED, ["gpu=h100-sxm"]))


def test_a_profile_of_another_engine_version_is_said() -> None:
    deployment = deploy(load(SHIPPED))
    experiment = Experiment("resample", 1, rate=5.0, duration=10.0)
    sample = perform(deployment, experiment)
    simulation = Simulation(deployment, experiment, record(deployment, experiment), sample, 20.0, "")
    cost = run_result(simulation)["step_cost"]
    assert cost["differences"] == ["measured on vllm 0.24.0, the scenario runs vllm 0.19.0"]
    assert cost["notes"]


def test_a_profile_of_experts_holds_for_one_way_to_lay_them_out() -> None:
    profile = Path(__file__).parents[2] / "configs" / "profiles" / "h200-mixtral-8x7b-bf16-tp2-ep2.json"
    settings = [
        "model=mixtral-8x7b",
        "engine.tensor_parallel_size=2",
        f"step_cost={{source: profile, path: {profile}}}",
    ]
    with pytest.raises(BadInput, match=r"expert_parallel_size: .* holds for 2, the scenario asks for 1"):
        build_cost(load(SHIPPED, settings))
    cost = build_cost(load(SHIPPED, [*settings, "engine.enable_expert_parallel=true"]))
    assert isinstance(cost, ProfileCost)
    assert cost.profile.provenance.expert_parallel


def test_memory_that_is_counted_but_not_simulated_is_refused_by_name() -> None:
    constant = "step_cost={source: constant, seconds: 10ms}"
    hybrid = load(SHIPPED, ["model=gemma-3-27b", constant])
    with pytest.raises(
        BadInput, match=r"gemma-3-27b has .* attention: its memory is counted, not simulated yet"
    ):
        deploy(hybrid)
