from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from capsim.catalog import load_model
from capsim.catalog.entry import entry_text
from capsim.scenario import Scenario, load, resolved
from tests.scenario.test_load import MINIMAL, SHIPPED, written

OVERRIDES: list[list[str]] = [
    [],
    ["step_cost={source: constant, seconds: 10ms}"],
    ["step_cost={source: linear, base: 14ms, per_context_token: 0.0123us}"],
    ["step_cost={host_overhead: 1.7ms, compute_efficiency: 61.3%}"],
    ["demand.target=17000 tokens/min", "demand.sampling={temperature: 0.7, greedy: false, stop: null}"],
    ["fleet.replicas=3", "fleet.failures=[{replica: 2, at: 61s, down_for: 5min}, {replica: 0, at: 0}]"],
    ["slo={itl: {p99.99999: 0.0123456789ms}, quality: {mmlu: {value: 0.683, minimum: 0.67}}}"],
    ["plan={reserve: 133.7%, drills: [], resolution: 2.9%, literal_replay: false}"],
    ["engine.num_gpu_blocks_override=1234", "engine.gpu_memory_utilization=87%"],
    [
        "demand.trace=null",
        "demand.synthetic={arrivals: {process: gamma, burstiness: 0.31}, prompt_tokens: {distribution: lognormal, "
        "mean: 700.5, cv: 1.1, max: 4000}, output_tokens: {distribution: uniform, low: 3, high: 8}}",
    ],
    [
        "demand.trace=null",
        "demand.synthetic={prompt_tokens: {distribution: geometric, mean: 700}, output_tokens: {distribution: fixed, "
        "value: 9}, prefix: {tokens: 333, share: 61.7%}}",
    ],
    ["demand.trace={path: mooncake_conversation_first2000.jsonl.gz, format: mooncake}"],
    [
        "engine.kv_offload=[{name: cpu, capacity: 64.3GiB, bandwidth: 25.123456789GB/s, latency: 50us, conversion: "
        "2.1us}, {name: disk, capacity: 3B, bandwidth: 1e-3B/s}]",
        "engine.watermark=1.23%",
    ],
    ["model=gemma-3-27b", "engine.limit_mm_per_prompt={image: 3}"],
    ["demand.sampling={n: 2, best_of: 3}"],
    [
        "engine.scheduling_policy=priority",
        "engine.long_prefill_token_threshold=300",
        "demand.trace=null",
        "demand.synthetic={prompt_tokens: {distribution: fixed, value: 9}, output_tokens: {distribution: fixed, "
        "value: 9}, priorities: [{priority: 3, share: 33.3%}, {priority: -1, share: 66.7%}]}",
    ],
    ["demand.trace={path: mooncake_conversation_first2000, format: mooncake, block_size: 64}"],
]


def again(scenario: Scenario, folder: Path, name: str) -> Scenario:
    """The scenario that is loaded from its own record, written by another library than it is read with."""
    record = resolved(scenario)
    text = json.dumps(record, indent=1) if name.endswith(".json") else yaml.safe_dump(record, sort_keys=False)
    return load(written(folder, text, name))


@pytest.mark.parametrize("name", ["record.json", "record.yaml"])
@pytest.mark.parametrize(
    "overrides", OVERRIDES, ids=lambda overrides: overrides[0] if overrides else "shipped"
)
def test_the_record_of_a_scenario_loads_as_the_same_scenario(
    tmp_path: Path, overrides: list[str], name: str
) -> None:
    scenario = load(SHIPPED, overrides)
    assert again(scenario, tmp_path, name) == scenario
    assert resolved(again(scenario, tmp_path, name)) == resolved(scenario)


@given(seconds=st.floats(1e-9, 1e6), share=st.floats(0.0001, 0.9999), rate=st.floats(1e-3, 1e6))
def test_odd_values_survive_the_record(
    tmp_path_factory: pytest.TempPathFactory, seconds: float, share: float, rate: float
) -> None:
    folder = tmp_path_factory.getbasetemp()
    overrides = [f"plan.duration={seconds!r}s", f"plan.reserve={share!r}", f"demand.target={rate!r}/s"]
    scenario = load(SHIPPED, overrides)
    assert again(scenario, folder, "record.json") == scenario


def test_the_record_holds_every_default_in_the_files_order(tmp_path: Path) -> None:
    record = resolved(load(written(tmp_path, MINIMAL)))
    assert list(record) == [
        "version", "name", "model", "gpu", "engine", "step_cost", "demand", "fleet", "slo", "plan", "validation", "seed"
    ]  # fmt: skip
    assert record["engine"]["max_model_len"] == 131072
    assert record["plan"] == {
        "reserve": "20%",
        "drills": ["replica_missing"],
        "duration": "600s",
        "replications": 8,
        "max_replicas": 1024,
        "resolution": "3%",
        "literal_replay": True,
    }
    assert record["demand"]["target"] == "80/s"
    assert list(record["demand"]["synthetic"]) == ["arrivals", "prompt_tokens", "output_tokens"]


def test_the_record_holds_the_defaults_of_prefixes() -> None:
    trace = {"path": "mooncake_conversation_first2000.jsonl.gz", "format": "mooncake"}
    record = resolved(load(SHIPPED, [f"demand.trace={json.dumps(trace)}"]))
    assert record["demand"]["trace"] == {**trace, "block_size": 512}
    lengths = "{distribution: fixed, value: 600}"
    synthetic = f"{{prompt_tokens: {lengths}, output_tokens: {lengths}, prefix: {{tokens: 512}}}}"
    record = resolved(load(SHIPPED, ["demand.trace=null", f"demand.synthetic={synthetic}"]))
    assert record["demand"]["synthetic"]["prefix"] == {"tokens": 512, "count": 8, "share": "100%"}


def test_a_model_of_one_s_own_is_recorded_by_its_path(tmp_path: Path) -> None:
    (tmp_path / "my-model.yaml").write_text(entry_text(load_model("qwen3-8b")))
    scenario = load(written(tmp_path, MINIMAL.replace("llama-3.1-8b", "my-model.yaml")))
    assert resolved(scenario)["model"] == str((tmp_path / "my-model.yaml").resolve())
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert again(scenario, elsewhere, "record.json") == scenario


def test_shipped_files_are_named_and_others_are_absolute(tmp_path: Path) -> None:
    assert resolved(load(SHIPPED))["demand"]["trace"]["path"] == "azure_conv_2023.csv"
    own = tmp_path / "own.csv"
    own.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n")
    scenario = load(written(tmp_path, MINIMAL), ["demand.synthetic=null", "demand.trace.path=own.csv"])
    assert resolved(scenario)["demand"]["trace"]["path"] == str(own.resolve())


def test_a_validation_is_recorded_by_its_path(tmp_path: Path) -> None:
    (tmp_path / "validation.json").write_text("{}")
    scenario = load(written(tmp_path, f"{MINIMAL}validation: validation.json\n"))
    assert resolved(scenario)["validation"] == str((tmp_path / "validation.json").resolve())
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert again(scenario, elsewhere, "record.json") == scenario
    assert resolved(load(written(tmp_path, MINIMAL)))["validation"] is None
