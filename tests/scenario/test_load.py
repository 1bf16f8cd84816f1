from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from capsim.catalog import load_gpu, load_model
from capsim.catalog.data import data_path
from capsim.catalog.entry import entry_text
from capsim.errors import BadInput
from capsim.fleet.configuration import Failure, FleetConfiguration, Latencies
from capsim.measure.objectives import LatencyObjective, Objectives, QualityObjective
from capsim.scenario import (
    ArrivalSettings,
    ConstantSettings,
    DemandSettings,
    EngineSettings,
    LengthSettings,
    LimitSettings,
    LinearSettings,
    OffloadSettings,
    PlanSettings,
    PrefixSettings,
    PrioritySettings,
    ProfileSettings,
    RooflineSettings,
    Scenario,
    SyntheticSettings,
    TraceSettings,
    load,
)

SHIPPED = data_path("scenarios", "chat-llama-3.1-8b-h200.yaml")
MINIMAL = """\
version: 1
name: minimal
model: llama-3.1-8b
gpu: h200
demand:
  target: 4800/min
  synthetic:
    prompt_tokens: {distribution: fixed, value: 512}
    output_tokens: {distribution: geometric, mean: 256}
slo:
  ttft: {p95: 500ms}
"""


def written(tmp_path: Path, text: str, name: str = "s.yaml") -> Path:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def faults(path: Path, *overrides: str) -> list[str]:
    """Messages without the folder of the file."""
    with pytest.raises(BadInput) as refusal:
        load(path, overrides)
    return [str(fault).replace(f"{path.parent}/", "") for fault in refusal.value.faults]


def test_the_shipped_scenario_loads() -> None:
    assert load(SHIPPED) == Scenario(
        name="chat-llama-3.1-8b-h200",
        model=load_model("llama-3.1-8b"),
        gpu=load_gpu("h200"),
        engine=EngineSettings(
            name="vllm",
            version="0.19.0",
            tensor_parallel_size=1,
            pipeline_parallel_size=1,
            data_parallel_size=1,
            enable_expert_parallel=False,
            dtype="bfloat16",
            kv_cache_dtype="auto",
            max_model_len=16384,
            max_num_seqs=256,
            max_num_batched_tokens=2048,
            block_size=16,
            gpu_memory_utilization=0.92,
            num_gpu_blocks=None,
            enforce_eager=False,
            enable_chunked_prefill=True,
            enable_prefix_caching=True,
            async_scheduling=True,
            scheduler_reserve_full_isl=True,
            watermark=0.0,
            long_prefill_token_threshold=0,
            scheduling_policy="fcfs",
            kv_offload=(),
            limit_mm_per_prompt=LimitSettings(image=0),
        ),
        step_cost=ProfileSettings(data_path("profiles", "h200-llama-3.1-8b-bf16-tp1.json").resolve()),
        demand=DemandSettings(
            target=80.0,
            unit="requests",
            trace=TraceSettings(data_path("traces", "azure_conv_2023.csv").resolve(), "azure"),
        ),
        fleet=FleetConfiguration(
            replicas=1,
            router="round_robin",
            latencies=Latencies(0.002, 0.001, 0.001, 0.0002, 0.0003),
            model_load_time=60.0,
            max_retries=1,
        ),
        objectives=Objectives(
            (LatencyObjective("ttft", 95.0, 0.5), LatencyObjective("tpot", 95.0, 0.03)), error_rate=0.001
        ),
        plan=PlanSettings(
            reserve=0.2,
            drills=("replica_missing",),
            duration=600.0,
            replications=8,
            max_replicas=1024,
            resolution=0.03,
            literal_replay=True,
        ),
        seed=1,
    )


def test_experts_quantization_and_skew_are_settings(tmp_path: Path) -> None:
    text = MINIMAL.replace("llama-3.1-8b", "qwen3-30b-a3b").replace("gpu: h200", "gpu: a10") + (
        "engine: {dtype: int4, tensor_parallel_size: 2, enable_expert_parallel: true}\n"
        "step_cost: {routing_skew: 0.8}\n"
    )
    scenario = load(written(tmp_path, text))
    engine = scenario.engine
    assert (engine.dtype, engine.enable_expert_parallel, engine.pipeline_parallel_size) == ("int4", True, 1)
    assert scenario.step_cost == RooflineSettings(routing_skew=0.8)


@pytest.mark.parametrize("dtype", ["fp8", "int8"])
def test_weights_without_arithmetic_of_their_own_are_no_fault(tmp_path: Path, dtype: str) -> None:
    text = MINIMAL.replace("gpu: h200", "gpu: a100-80gb-sxm") + f"engine: {{dtype: {dtype}}}\n"
    assert load(written(tmp_path, text)).engine.dtype == dtype


def test_defaults_are_filled_in(tmp_path: Path) -> None:
    scenario = load(written(tmp_path, MINIMAL))
    assert scenario.engine.max_model_len == scenario.model.max_position_embeddings == 131072
    assert scenario.engine.gpu_memory_utilization == 0.9
    assert scenario.demand.target == 80.0
    assert scenario.demand.synthetic == SyntheticSettings(
        ArrivalSettings("poisson"),
        LengthSettings("fixed", value=512),
        LengthSettings("geometric", mean=256.0),
    )
    assert scenario.fleet == FleetConfiguration(replicas=1)
    assert scenario.plan.drills == ("replica_missing",)
    assert scenario.step_cost == RooflineSettings()
    assert scenario.seed == 0


def test_an_empty_section_means_its_defaults(tmp_path: Path) -> None:
    path = written(tmp_path, MINIMAL + "engine:\nfleet:\nplan:\nstep_cost:\n")
    assert load(path) == load(written(tmp_path, MINIMAL, "other.yaml"))


def test_everything_that_can_be_stated_is_read(tmp_path: Path) -> None:
    text = """\
version: 1
name: full
model: Qwen/Qwen3-32B
gpu: h100
engine: {tensor_parallel_size: 2, kv_cache_dtype: fp8, num_gpu_blocks_override: 1000}
step_cost: {source: linear, base: 14ms, per_prefill_token: 92us}
demand:
  target: 17000 tokens/s
  synthetic:
    arrivals: {process: gamma, burstiness: 0.5}
    prompt_tokens: {distribution: lognormal, mean: 700, cv: 1.2, max: 4000}
    output_tokens: {distribution: uniform, low: 1, high: 9}
  sampling: {temperature: 0.7, top_p: 1, greedy: no}
fleet:
  replicas: 2
  router: least_outstanding
  failures: [{replica: 1, at: 60s, down_for: 5min}, {replica: 0, at: 2min}]
slo:
  itl: {p99.9: 1s, p50: 20ms}
  e2e: {p100: 1min}
  quality: {mmlu: {value: 0.683, minimum: 0.67}}
plan: {reserve: 150%, drills: []}
"""
    scenario = load(written(tmp_path, text))
    assert scenario.model.name == "qwen3-32b"
    assert scenario.gpu.name == "h100-sxm"
    assert scenario.engine.num_gpu_blocks == 1000
    assert scenario.step_cost == LinearSettings(base=0.014, per_prefill_token=92e-6)
    assert (scenario.demand.target, scenario.demand.unit) == (17000.0, "output_tokens")
    assert scenario.demand.synthetic == SyntheticSettings(
        ArrivalSettings("gamma", 0.5),
        LengthSettings("lognormal", mean=700.0, cv=1.2, max=4000),
        LengthSettings("uniform", low=1, high=9),
    )
    assert scenario.demand.sampling == {"temperature": 0.7, "top_p": 1, "greedy": "no"}
    assert scenario.fleet.failures == (Failure(1, 60.0, 300.0), Failure(0, 120.0, None))
    assert scenario.objectives == Objectives(
        (
            LatencyObjective("itl", 99.9, 1.0),
            LatencyObjective("itl", 50.0, 0.02),
            LatencyObjective("e2e", 100.0, 60.0),
        ),
        quality=(QualityObjective("mmlu", 0.683, 0.67),),
    )
    assert (scenario.plan.reserve, scenario.plan.drills) == (1.5, ())


def test_traces_and_prompts_that_share_prefixes_are_read(tmp_path: Path) -> None:
    name = "mooncake_conversation_first2000.jsonl.gz"
    trace = "{path: mooncake_conversation_first2000, format: mooncake}"
    scenario = load(SHIPPED, [f"demand.trace={trace}"])
    path = data_path("traces", name).resolve()
    assert scenario.demand.trace == TraceSettings(path, "mooncake", 512)
    assert load(
        SHIPPED, [f"demand.trace={trace}", "demand.trace.block_size=64"]
    ).demand.trace == TraceSettings(path, "mooncake", 64)
    text = MINIMAL.replace("    output", "    prefix: {tokens: 100, count: 3, share: 50%}\n    output")
    synthetic = load(written(tmp_path, text)).demand.synthetic
    assert synthetic is not None
    assert synthetic.prefix == PrefixSettings(100, 3, 0.5)


def test_what_the_engine_may_hold_is_read_in_bytes_and_seconds(tmp_path: Path) -> None:
    text = MINIMAL.replace("llama-3.1-8b", "gemma-3-27b") + (
        "engine: {watermark: 1%, limit_mm_per_prompt: {image: 2}}\n"
    )
    engine = load(written(tmp_path, text)).engine
    assert (engine.watermark, engine.limit_mm_per_prompt) == (0.01, LimitSettings(2))
    tiers = (
        "[{name: cpu, capacity: 64GiB, bandwidth: 25GB/s, latency: 50us, conversion: 2us}, "
        "{name: disk, capacity: 1TB, bandwidth: 3GB/s}]"
    )
    assert load(SHIPPED, [f"engine.kv_offload={tiers}"]).engine.kv_offload == (
        OffloadSettings("cpu", 64 << 30, 25e9, 50e-6, 2e-6),
        OffloadSettings("disk", 10**12, 3e9),
    )


def test_a_model_beside_the_scenario_is_read(tmp_path: Path) -> None:
    own = replace(load_model("llama-3.1-8b"), name="mine", layers=3)
    (tmp_path / "my-model.yaml").write_text(entry_text(own))
    scenario = load(written(tmp_path, MINIMAL.replace("llama-3.1-8b", "./my-model.yaml")))
    assert scenario.model == own
    assert scenario.model_file == (tmp_path / "my-model.yaml").resolve()


def test_a_path_of_a_shipped_model_is_that_model() -> None:
    scenario = load(SHIPPED, [f"model={data_path('models', 'qwen3-8b.yaml')}"])
    assert scenario.model == load_model("qwen3-8b")
    assert scenario.model_file is None


@pytest.mark.parametrize(
    ("sampling", "samples", "beams"),
    [
        ("{}", 1, False),
        ("{temperature: 0.7, n: null}", 1, False),
        ("{n: 4}", 4, False),
        ("{n: 2, best_of: 5}", 5, False),
        ("{use_beam_search: true}", 1, True),
        ("{use_beam_search: false, beam_width: 1}", 1, False),
        ("{beam_width: 3}", 1, True),
    ],
)
def test_sampling_says_how_many_sequences_a_request_has(sampling: str, samples: int, beams: bool) -> None:
    demand = load(SHIPPED, [f"demand.sampling={sampling}"]).demand
    assert (demand.samples, demand.searches_beams) == (samples, beams)


def test_files_beside_the_scenario_come_before_shipped_ones(tmp_path: Path) -> None:
    (tmp_path / "azure_conv_2023.csv").write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n")
    (tmp_path / "measured.json").write_text("{}")
    text = MINIMAL + "step_cost: {source: profile, path: measured.json}\n"
    path = written(tmp_path, text)
    overrides = ["demand.synthetic=null", "demand.trace.path=azure_conv_2023.csv"]
    scenario = load(path, overrides)
    assert scenario.demand.trace == TraceSettings((tmp_path / "azure_conv_2023.csv").resolve(), "azure")
    assert scenario.step_cost == ProfileSettings((tmp_path / "measured.json").resolve())


def test_overrides_win_and_later_ones_win_over_earlier_ones() -> None:
    scenario = load(
        SHIPPED,
        [
            "engine.max_num_seqs=64",
            "engine.max_num_seqs=128",
            "slo.ttft.p95=1e0s",
            "plan.drills=[]",
            "step_cost={source: constant, seconds: 10ms}",
            "fleet.failures=[{replica: 0, at: 1s}]",
            "fleet.failures[0].at=2s",
        ],
    )
    assert scenario.engine.max_num_seqs == 128
    assert scenario.objectives.latency[0] == LatencyObjective("ttft", 95.0, 1.0)
    assert scenario.plan.drills == ()
    assert scenario.step_cost == ConstantSettings(0.01)
    assert scenario.fleet.failures == (Failure(0, 2.0),)


ENGINE_KEYS = (
    "name, version, tensor_parallel_size, pipeline_parallel_size, data_parallel_size, enable_expert_parallel, dtype, "
    "kv_cache_dtype, max_model_len, max_num_seqs, max_num_batched_tokens, block_size, gpu_memory_utilization, "
    "num_gpu_blocks, num_gpu_blocks_override, enforce_eager, enable_chunked_prefill, enable_prefix_caching, "
    "async_scheduling, scheduler_reserve_full_isl, watermark, long_prefill_token_threshold, "
    "max_num_partial_prefills, max_long_partial_prefills, scheduling_policy, kv_offload, limit_mm_per_prompt, "
    "args"
)
COUNT = "expected a whole number, at least"
BAD_OVERRIDES = [
    (
        "engine.max_num_seq=1",
        f"--set engine.max_num_seq: unknown key, expected one of {ENGINE_KEYS}, did you mean 'max_num_seqs'?",
    ),
    ("engine.max_num_seqs=many", f"--set engine.max_num_seqs: 'many' is no whole number, {COUNT} 1"),
    ("engine.max_num_seqs=", f"--set engine.max_num_seqs: nothing is no whole number, {COUNT} 1"),
    ("seed.x=1", "--set seed.x: seed is not a mapping, so it has no key 'x'"),
    (
        "fleet.failures[0].at=1s",
        "--set fleet.failures[0].at: fleet.failures is not a list, so there is no [0]",
    ),
    ("seed", "--set: 'seed' sets nothing, expected a key and a value such as engine.max_num_seqs=128"),
    ("a..b=1", "--set: 'a..b=1' sets nothing, expected a key and a value such as engine.max_num_seqs=128"),
    (
        "engin.dtype=fp8",
        "--set engin.dtype: engin: unknown key, expected one of version, name, model, gpu, engine, step_cost, demand, "
        "fleet, slo, plan, validation, seed, extends, did you mean 'engine'?",
    ),
]


@pytest.mark.parametrize(("override", "message"), BAD_OVERRIDES)
def test_bad_overrides_are_refused_by_their_own_name(override: str, message: str) -> None:
    assert faults(SHIPPED, override) == [message]


def test_importing_scenario_stays_light() -> None:
    heavy = ("torch", "matplotlib", "scipy", "joblib", "simpy")
    code = f"import sys, capsim.scenario; print([name for name in {heavy} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("version", "ahead", "whole"),
    [("0.13.0", False, False), ("0.14.0", True, False), ("0.19.1rc1", True, True), ("main", True, True)],
)
def test_defaults_follow_the_engine_version(version: str, ahead: bool, whole: bool) -> None:
    shipped = data_path("scenarios", "chat-llama-3.1-8b-h200.yaml")
    engine = load(shipped, [f"engine.version='{version}'"]).engine
    assert (engine.async_scheduling, engine.scheduler_reserve_full_isl) == (ahead, whole)
    stated = load(shipped, [f"engine.version='{version}'", "engine.async_scheduling=false"]).engine
    assert stated.async_scheduling is False


def test_priorities_and_how_the_engine_schedules_are_read() -> None:
    lengths = "{distribution: fixed, value: 9}"
    priorities = "[{priority: 0, share: 20%}, {priority: -1, share: 0.8}]"
    synthetic = f"{{prompt_tokens: {lengths}, output_tokens: {lengths}, priorities: {priorities}}}"
    scenario = load(
        SHIPPED,
        [
            "demand.trace=null",
            f"demand.synthetic={synthetic}",
            "engine.scheduling_policy=priority",
            "engine.long_prefill_token_threshold=512",
            "engine.max_num_partial_prefills=1",
        ],
    )
    assert scenario.demand.synthetic is not None
    assert scenario.demand.synthetic.priorities == (PrioritySettings(0, 0.2), PrioritySettings(-1, 0.8))
    assert scenario.engine.scheduling_policy == "priority"
    assert scenario.engine.long_prefill_token_threshold == 512
