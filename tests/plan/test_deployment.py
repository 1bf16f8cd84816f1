from dataclasses import replace
from pathlib import Path

import pytest

from capsim.catalog import Gpu, load_gpu, load_model
from capsim.catalog.entry import entry_text, gpu_text
from capsim.cost import BatchShape, ProfileCost, RooflineCost
from capsim.errors import BadInput
from capsim.plan.deployment import build_cost, deploy, fitted
from capsim.plan.experiment import Experiment, perform, record
from capsim.plan.fit_result import fit_result
from capsim.plan.not_modelled import HYBRID, UNRECORDED, not_modelled
from capsim.plan.replica_memory import count_memory
from capsim.plan.run_result import run_result
from capsim.plan.service import service_fingerprint
from capsim.plan.simulation import Simulation
from capsim.scenario import load

CONSTANT = "step_cost={source: constant, seconds: 10ms}"
ROOFLINE = "step_cost={source: roofline}"
TIER = "{name: cpu, capacity: 64GiB, bandwidth: 25GB/s, latency: 50us, conversion: 2us}"
MOONCAKE = "demand.trace={path: mooncake_conversation_first2000, format: mooncake}"
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


@pytest.mark.parametrize(
    ("model", "cost"),
    [
        ("gemma-3-27b", ROOFLINE),
        ("gpt-oss-20b", ROOFLINE),
        ("qwen3-next-80b-a3b", CONSTANT),
        ("deepseek-v2-lite", CONSTANT),
    ],
)
def test_windows_states_and_latents_are_simulated_with_the_blocks_that_memory_counts(
    model: str, cost: str
) -> None:
    deployment = deploy(load(SHIPPED, [f"model={model}", "engine.tensor_parallel_size=2", cost]))
    layout, footprint = deployment.memory.layout, deployment.engine.footprint
    # Around a block, a window of 128 and of 1,024 tokens, a raised block of 544, and the longest.
    for tokens in (1, 16, 17, 127, 128, 129, 144, 543, 544, 545, 1023, 1024, 1025, 1040, 5000, 16384):
        assert footprint.blocks(tokens) == layout.blocks(tokens), tokens
    assert footprint.plain == layout.plain == (model == "deepseek-v2-lite")
    assert deployment.engine.enable_prefix_caching == layout.plain
    counts = perform(deployment, Experiment("resample", 1, rate=2.0, duration=20.0))["counts"]
    assert counts["completed"] == counts["offered"] > 0


def test_tiers_are_cut_into_blocks_of_all_ranks() -> None:
    tiers = f"engine.kv_offload=[{TIER}, {{name: disk, capacity: 1TB, bandwidth: 3GB/s}}]"
    alone = fitted(load(SHIPPED, [tiers])).engine.tiers
    # A token of Llama 3.1 8B has keys and values of 32 layers, 8 heads and 128 dimensions at 2 bytes.
    size = 16 * 2 * 32 * 8 * 128 * 2
    assert [(tier.name, tier.blocks, tier.latency) for tier in alone] == [
        ("cpu", (64 << 30) // size, 50e-6),
        ("disk", 10**12 // size, 0.0),
    ]
    assert [tier.seconds_per_block for tier in alone] == [size / 25e9 + 2e-6, size / 3e9]
    # Two ranks hold half a block each, sixteen hold a copy of a head each: twice the bytes.
    split, copied = (
        fitted(load(SHIPPED, [tiers, ROOFLINE, f"engine.tensor_parallel_size={ranks}"])).engine.tiers[0]
        for ranks in (2, 16)
    )
    assert split == alone[0]
    assert copied.blocks == alone[0].blocks // 2


def test_a_tier_of_less_than_a_block_is_refused() -> None:
    small = "engine.kv_offload=[{name: cpu, capacity: 1MiB, bandwidth: 25GB/s}]"
    with pytest.raises(
        BadInput, match=r"kv_offload\[0\].capacity: 1MiB hold not one KV block.* at least 2MiB"
    ):
        fitted(load(SHIPPED, [small]))


def test_the_watermark_reaches_the_engine() -> None:
    assert fitted(load(SHIPPED)).engine.watermark_blocks == 0
    engine = fitted(load(SHIPPED, ["engine.watermark=1%", "engine.num_gpu_blocks=5000"])).engine
    assert engine.watermark_blocks == 50


def test_images_take_memory_from_the_cache() -> None:
    gemma = ["model=gemma-3-27b", ROOFLINE]
    text, images = (
        count_memory(load(SHIPPED, [*gemma, f"engine.limit_mm_per_prompt={{image: {most}}}"]))
        for most in (0, 1)
    )
    assert images.num_gpu_blocks < text.num_gpu_blocks
    assert {line.name for line in images.lines} - {line.name for line in text.lines} >= {"vision encoder"}


@pytest.mark.parametrize("sampling", ["{use_beam_search: true}", "{beam_width: 4}"])
def test_beams_are_counted_and_not_simulated(sampling: str) -> None:
    scenario = load(SHIPPED, [f"demand.sampling={sampling}"])
    assert fit_result(fitted(scenario))["memory"] == fit_result(fitted(load(SHIPPED)))["memory"]
    with pytest.raises(BadInput, match="beam search is counted by fit, not simulated"):
        deploy(scenario)


def test_a_request_of_several_sequences_generates_the_tokens_of_all() -> None:
    experiment = Experiment("resample", 1, rate=2.0, duration=20.0)
    alone, several = (
        record(deploy(load(SHIPPED, [f"demand.sampling={sampling}"])), experiment)
        for sampling in ("{}", "{n: 2, best_of: 3}")
    )
    assert (alone.samples, several.samples) == (1, 3)
    decoded = [int((log.leaps.steps * log.leaps.decodes).sum()) for log in (alone, several)]
    # Each sequence decodes all but its first token.
    assert decoded[1] == 3 * decoded[0] > 0


def test_a_target_in_tokens_counts_those_of_every_sequence() -> None:
    alone, several = (
        fitted(load(SHIPPED, ["demand.target=17000 tokens/s", f"demand.sampling={sampling}"])).target_rate
        for sampling in ("{}", "{n: 4}")
    )
    assert several == alone / 4


def test_the_fingerprint_covers_the_content_of_a_model_of_one_s_own(tmp_path: Path) -> None:
    def fingerprint(folder: str, text: str) -> str:
        path = tmp_path / folder / "mine.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return fitted(load(SHIPPED, [f"model={path}"])).fingerprint

    shipped = load_model("llama-3.1-8b")
    same = fingerprint("a", entry_text(shipped))
    assert same == fitted(load(SHIPPED)).fingerprint == fingerprint("b", entry_text(shipped))
    assert fingerprint("a", entry_text(replace(shipped, intermediate_size=14400))) != same


def test_the_fingerprints_cover_the_content_of_a_gpu_of_one_s_own(tmp_path: Path) -> None:
    def fingerprints(folder: str, gpu: Gpu) -> tuple[str, str]:
        path = tmp_path / folder / "mine.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(gpu_text(gpu))
        scenario = load(SHIPPED, [f"gpu={path}", "step_cost={source: roofline}"])
        return fitted(scenario).fingerprint, service_fingerprint(scenario)

    own = replace(load_gpu("h200"), name="mine")
    same = fingerprints("a", own)
    assert fingerprints("b", own) == same
    for before, after in zip(same, fingerprints("a", replace(own, link_bandwidth=225e9)), strict=True):
        assert before != after


def test_the_fingerprint_covers_what_the_engine_holds() -> None:
    settings: list[list[str]] = [
        [],
        [f"engine.kv_offload=[{TIER}]"],
        [f"engine.kv_offload=[{TIER.replace('2us', '3us')}]"],
        ["engine.watermark=1%"],
    ]
    assert len({fitted(load(SHIPPED, each)).fingerprint for each in settings}) == len(settings)


def test_shared_prefixes_are_missing_only_where_none_are_recorded_and_the_engine_looks_for_them() -> None:
    statements = {UNRECORDED, HYBRID}
    off = "engine.enable_prefix_caching=false"
    expected: list[tuple[list[str], set[str]]] = [
        ([], {UNRECORDED}),
        ([off], set()),
        ([MOONCAKE], set()),
        (["model=gemma-3-27b", ROOFLINE], {HYBRID}),
        (["model=gemma-3-27b", ROOFLINE, MOONCAKE], {HYBRID}),
        (["model=gemma-3-27b", ROOFLINE, off], set()),
    ]
    for overrides, said in expected:
        assert statements & set(not_modelled(deploy(load(SHIPPED, overrides)))) == said, overrides
