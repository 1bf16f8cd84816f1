from __future__ import annotations

from pathlib import Path

import pytest

from capsim.catalog import load_model, model_names
from capsim.memory.kv import KvLayout
from capsim.scenario import load
from tests.scenario.test_faults import TIER
from tests.scenario.test_load import COUNT, MINIMAL, SHIPPED, faults, written


def test_a_validation_that_is_not_there_is_refused_at_its_place(tmp_path: Path) -> None:
    assert faults(written(tmp_path, f"{MINIMAL}validation: no.json\n")) == [
        "s.yaml:12:13: validation: there is no file 'no.json', expected a file beside the scenario or an absolute path"
    ]


def test_a_missing_trace_names_the_shipped_ones() -> None:
    assert faults(SHIPPED, "demand.trace.path=azure_conv_2024.csv") == [
        "--set demand.trace.path: there is no file 'azure_conv_2024.csv', expected a file beside the scenario or an "
        "absolute path, or one of the shipped ones: azure_conv_2023.csv, mooncake_conversation_first2000.jsonl.gz, did "
        "you mean 'azure_conv_2023.csv'?"
    ]


TRACE_FAULTS = [
    (
        ["demand.trace.format=moncake"],
        "--set demand.trace.format: 'moncake' is not known, expected one of azure, mooncake, did you mean 'mooncake'?",
    ),
    (
        ["demand.trace.block_size=512"],
        "--set demand.trace.block_size: azure traces have no hash ids, expected format: mooncake",
    ),
    (
        ["demand.trace.format=mooncake", "demand.trace.block_size=0"],
        f"--set demand.trace.block_size: 0 is too small, {COUNT} 1",
    ),
    (
        ["demand.trace.format=moncake", "demand.trace.block_size=512"],
        "--set demand.trace.format: 'moncake' is not known, expected one of azure, mooncake, did you mean 'mooncake'?",
    ),
]


@pytest.mark.parametrize(("overrides", "message"), TRACE_FAULTS)
def test_a_trace_s_keys_are_checked(overrides: list[str], message: str) -> None:
    assert faults(SHIPPED, *overrides) == [message]


SAMPLING_FAULTS = [
    ("{n: 0}", "n: 0 is no number of sequences, expected a whole number, at least 1"),
    ("{n: true}", "n: true is no number of sequences, expected a whole number, at least 1"),
    (
        "{n: 2, best_of: many}",
        "best_of: 'many' is no number of sequences, expected a whole number, at least 1",
    ),
    ("{n: 3, best_of: 2}", "best_of: 2 is less than n (3), expected at least 3"),
    ("{beam_width: 1.5}", "beam_width: 1.5 is no number of sequences, expected a whole number, at least 1"),
    ("{use_beam_search: yes}", "use_beam_search: 'yes' is neither true nor false, expected true or false"),
]


@pytest.mark.parametrize(("sampling", "message"), SAMPLING_FAULTS)
def test_sampling_that_decides_the_sequences_is_checked(sampling: str, message: str) -> None:
    assert faults(SHIPPED, f"demand.sampling={sampling}") == [
        f"--set demand.sampling: demand.sampling.{message}"
    ]


def test_experts_are_dealt_out_where_they_cannot_be_split(tmp_path: Path) -> None:
    text = (
        MINIMAL.replace("llama-3.1-8b", "qwen3-30b-a3b")
        + "engine: {tensor_parallel_size: 4, data_parallel_size: 5}\n"
    )
    assert faults(written(tmp_path, text)) == [
        "s.yaml:12:55: engine.data_parallel_size: 20 GPUs do not divide the 768 columns of qwen3-30b-a3b's experts, "
        "expected enable_expert_parallel: true"
    ]
    dealt = load(written(tmp_path, text), ["engine.enable_expert_parallel=true"]).engine
    assert (dealt.data_parallel_size, dealt.enable_expert_parallel) == (5, True)
    # 768 columns on four times six GPUs, and a dense model on any number.
    assert load(written(tmp_path, text), ["engine.data_parallel_size=6"]).engine.data_parallel_size == 6
    dense = MINIMAL + "engine: {data_parallel_size: 5}\n"
    assert load(written(tmp_path, dense)).engine.data_parallel_size == 5


@pytest.mark.parametrize("model", ["gemma-3-27b", "gpt-oss-20b", "qwen3-next-80b-a3b"])
def test_tiers_are_refused_for_models_whose_prefixes_are_not_cached(tmp_path: Path, model: str) -> None:
    text = f"{MINIMAL}engine: {{kv_offload: [{TIER}]}}\n".replace("llama-3.1-8b", model)
    assert faults(written(tmp_path, text)) == [
        f"s.yaml:12:10: engine.kv_offload: {model} has layers with windows or states, whose prefixes are not cached, "
        "expected no tier"
    ]


def test_tiers_are_refused_for_every_layout_that_is_not_plain() -> None:
    """The check looks at the model, the engine at its layout: they must agree."""
    for name in model_names():
        model = load_model(name)
        layout = KvLayout.of(model, 1, "bfloat16", 16)
        assert layout.plain == (model.window is None and model.linear is None), name


def test_a_model_s_file_that_is_not_there_or_at_fault_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, MINIMAL.replace("llama-3.1-8b", "mine.yaml"))
    assert faults(path) == [
        "s.yaml:3:8: model: there is no file 'mine.yaml', expected a file beside the scenario or an absolute path"
    ]
    (tmp_path / "mine.yaml").write_text("name: mine\nattention: gqa\n")
    assert all(message.startswith("mine.yaml:") for message in faults(path))


@pytest.mark.parametrize(
    ("lengths", "longest"),
    [
        ("{distribution: uniform, low: 3, high: 8}", 8),
        ("{distribution: lognormal, mean: 5, cv: 1, max: 9}", 9),
    ],
)
def test_a_prefix_is_not_longer_than_every_prompt(lengths: str, longest: int) -> None:
    synthetic = f"{{prompt_tokens: {lengths}, output_tokens: {lengths}, prefix: {{tokens: 10}}}}"
    found = faults(SHIPPED, "demand.trace=null", f"demand.synthetic={synthetic}")
    assert found == [
        "--set demand.synthetic: demand.synthetic.prefix.tokens: 10 is longer than any prompt, "
        f"expected at most {longest}"
    ]


def test_a_prefix_beside_faulty_lengths_is_not_a_fault_too(tmp_path: Path) -> None:
    text = MINIMAL.replace("value: 512", "value: few").replace(
        "    output", "    prefix: {tokens: 9}\n    output"
    )
    (found,) = faults(written(tmp_path, text))
    assert "prompt_tokens.value: 'few'" in found


def test_checks_across_keys_look_at_all_that_is_sound(tmp_path: Path) -> None:
    text = """\
version: 1
name: many
model: llama-3.1-8b
gpu: h300
engine:
  tensor_parallel_size: 5
  max_num_seqs: 4096
  max_model_len: 200000
  dtype: bf16
  block_size: 16
  block_size: 32
demand:
  target: 80
  trace: {path: nowhere.csv}
fleet:
  failures: [{replica: 7, at: 1s}]
  network: 1ms
slo:
  tpot: {p95: 30}
"""
    found = faults(written(tmp_path, text))
    assert [message.split(",")[0] for message in found] == [
        "s.yaml:4:6: gpu: 'h300' is not in the catalog",
        "s.yaml:5:1: engine.max_num_batched_tokens: 2048 is less than max_num_seqs (4096)",
        "s.yaml:6:25: engine.tensor_parallel_size: 5 GPUs cannot share llama-3.1-8b (32 attention heads",
        "s.yaml:8:18: engine.max_model_len: 200000 is longer than llama-3.1-8b was published for",
        "s.yaml:9:10: engine.dtype: 'bf16' is not known",
        "s.yaml:11:3: engine.block_size: duplicate key",
        "s.yaml:13:11: demand.target: 80 has no unit",
        "s.yaml:14:17: demand.trace.path: there is no file 'nowhere.csv'",
        "s.yaml:16:24: fleet.failures[0].replica: there is no replica 7",
        "s.yaml:17:3: fleet.network: unknown key",
        "s.yaml:19:15: slo.tpot.p95: 30 has no unit",
    ]


def test_a_check_is_silent_where_a_value_it_needs_is_at_fault(tmp_path: Path) -> None:
    # 255 batched tokens would be too few for the default of 256 sequences, which nobody asked for.
    text = MINIMAL + "engine: {max_num_seqs: few, max_num_batched_tokens: 255}\n"
    (found,) = faults(written(tmp_path, text))
    assert "max_num_seqs: 'few'" in found


def test_a_misspelt_key_is_not_missed_too(tmp_path: Path) -> None:
    text = MINIMAL.replace("model: llama", "modle: llama").replace("value: 512", "vlue: 512")
    found = faults(written(tmp_path, text))
    assert [message.split(",")[0] for message in found] == [
        "s.yaml:3:1: modle: unknown key",
        "s.yaml:8:42: demand.synthetic.prompt_tokens.vlue: unknown key",
    ]


def test_required_keys_are_all_missed_at_once(tmp_path: Path) -> None:
    found = faults(written(tmp_path, "seed: 1\n"))
    assert [message.split(":")[3].strip() for message in found] == [
        "version",
        "name",
        "model",
        "gpu",
        "demand",
        "slo",
    ]
