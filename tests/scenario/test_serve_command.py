"""Pasted command lines of ``vllm serve``."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capsim.errors import BadInput
from capsim.scenario import Scenario, load, resolved
from capsim.scenario.serve_command import read_command
from capsim.scenario.serve_flags import FLAGS, IGNORED, MODELLED, NOT_MODELLED, REFUSED, SHORT, Effect
from capsim.scenario.serve_settings import serve_settings
from tests.scenario.test_load import MINIMAL, faults, written

PASTED = r"""
VLLM_USE_FLASHINFER_SAMPLER=1 CUDA_VISIBLE_DEVICES=0,1 vllm serve meta-llama/Llama-3.1-8B-Instruct \
  --host 0.0.0.0 --port=8000 --api-key secret --served-model-name chat chat-8b \
  --max-num-seqs 128 --max_num_batched_tokens=8k -tp 2 --no-enable-prefix-caching -q fp8 \
  --gpu-memory-utilization 0.92 --max-model-len 16K --dtype auto --swap-space 4 \
  --speculative-config '{"method": "ngram", "num_speculative_tokens": 3}' > serve.log 2>&1 &
"""


def with_args(tmp_path: Path, args: str, engine: str = "", start: str = MINIMAL) -> Path:
    lines = "\n".join(f"    {line}" for line in args.strip().splitlines())
    return written(tmp_path, f"{start}engine:\n{engine}  args: |\n{lines}\n")


def loaded(tmp_path: Path, args: str, engine: str = "") -> Scenario:
    return load(with_args(tmp_path, args, engine))


def test_a_pasted_line_settles_keys_and_says_what_it_leaves_out(tmp_path: Path) -> None:
    scenario = loaded(tmp_path, PASTED)
    engine, command = scenario.engine, scenario.command_line
    assert (engine.max_num_seqs, engine.max_num_batched_tokens, engine.tensor_parallel_size) == (128, 8000, 2)
    assert (engine.enable_prefix_caching, engine.dtype, engine.max_model_len) == (False, "fp8", 16384)
    assert engine.gpu_memory_utilization == 0.92
    assert command is not None
    assert command.ignored == (
        *("--host", "--port", "--api-key", "--served-model-name", "--dtype", "--swap-space"),
    )
    assert [flag for flag, _ in command.not_modelled] == [
        "VLLM_USE_FLASHINFER_SAMPLER=1",
        """--speculative-config '{"method": "ngram", "num_speculative_tokens": 3}'""",
    ]


def test_the_record_keeps_what_is_left_out_and_no_secret(tmp_path: Path) -> None:
    scenario = loaded(tmp_path, PASTED)
    record = json.dumps(resolved(scenario))
    assert "secret" not in record
    again = load(written(tmp_path, record, "record.json"))
    assert again == scenario
    assert again.command_line is not None
    assert scenario.command_line is not None
    assert again.command_line.not_modelled == scenario.command_line.not_modelled
    assert resolved(again) == resolved(scenario)


@pytest.mark.parametrize(
    "line",
    [
        "--max-num-seqs 9",
        "vllm serve --max-num-seqs 9",
        "vllm serve llama-3.1-8b --max-num-seqs=9",
        "llama-3.1-8b --max_num_seqs=9",
        "vllm serve --model meta-llama/Llama-3.1-8B --max_num_seqs 9",
        "python3 -m vllm.entrypoints.openai.api_server --model llama-3.1-8b --max-num-seqs '9'",
        "vllm serve llama-3.1-8b \\\n  --max-num-seqs \\\n  9 \\",
        "--max-num-seqs 5 --max-num-seqs 9 | tee log",
    ],
)
def test_the_same_is_said_in_many_ways(tmp_path: Path, line: str) -> None:
    assert loaded(tmp_path, line).engine.max_num_seqs == 9


@pytest.mark.parametrize(
    ("line", "key", "value"),
    [
        ("-pp 1", "pipeline_parallel_size", 1),
        ("-dp=2", "data_parallel_size", 2),
        ("--enable-chunked-prefill", "enable_chunked_prefill", True),
        ("--enable-prefix-caching=false", "enable_prefix_caching", False),
        ("--enforce-eager", "enforce_eager", True),
        ("--kv-cache-dtype fp8_e5m2", "kv_cache_dtype", "fp8"),
        ("--max-model-len -1", "max_model_len", 131072),
        ("--dtype half", "dtype", "float16"),
        ("--dtype bfloat16 --quantization awq_marlin", "dtype", "int4"),
        ("--quantization fp8 --dtype bfloat16", "dtype", "fp8"),
        ("--num-gpu-blocks-override 500", "num_gpu_blocks", 500),
        ("--scheduling-policy priority", "scheduling_policy", "priority"),
        ("--device-memory-utilization .5", "gpu_memory_utilization", 0.5),
    ],
)
def test_a_flag_settles_its_key(tmp_path: Path, line: str, key: str, value: Any) -> None:
    assert getattr(loaded(tmp_path, line).engine, key) == value


@pytest.mark.parametrize(
    "line",
    [
        """--limit-mm-per-prompt '{"image": 2, "video": 0}'""",
        """--limit-mm-per-prompt '{"image": {"count": 2, "width": 512}}'""",
        "--limit-mm-per-prompt image=2,video=0",
        "--limit-mm-per-prompt.image 2",
    ],
)
def test_limits_are_read_in_every_form(line: str) -> None:
    meant = serve_settings(read_command(line), {})
    assert {key: value for key, (_, value) in meant.keys.items()} == {"limit_mm_per_prompt": {"image": 2}}
    assert (meant.not_modelled, meant.problems) == ([], [])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--max-num-seq 9", "--max-num-seq is no flag of vllm serve, did you mean '--max-num-seqs'?"),
        ("--no-enable-prefix-cachin", "did you mean '--no-enable-prefix-caching'?"),
        ("-tpp 2", "-tpp is no flag of vllm serve, expected a flag of one dash such as -tp"),
        ("--max-num-seqs", "--max-num-seqs has no value"),
        ("--max-num-seqs 9 stray", "'stray' belongs to no flag"),
        ("--max-num-seqs $SEQS", "a variable of the shell, expected its value"),
        ("--enable-lora=maybe", "'maybe' is neither true nor false"),
        ("vllm bench serve", "'vllm bench' starts no server, expected vllm serve"),
        ("--tp 2", "--tp is no flag of vllm serve, did you mean '-tp'?"),
        (
            "python -m sglang.launch_server --tp 2 --mem-fraction-static 0.9",
            "'python -m sglang.launch_server' does not start vLLM, and no other engine is modelled, expected vllm "
            "serve, or python -m vllm.entrypoints.openai.api_server",
        ),
        ("/usr/bin/python3.11 server.py --tp 2", "'/usr/bin/python3.11 server.py --tp' does not start vLLM"),
        ("python -m", "'python -m' does not start vLLM"),
        ("trtllm-serve Qwen/Qwen3-8B --tp_size 2", "'trtllm-serve' starts another engine than vLLM"),
        (
            "docker run --gpus all vllm/vllm-openai:v0.19.0 --model llama-3.1-8b",
            "'docker run' starts a container, expected what stands behind the image's name",
        ),
        ("--served-model-name 'chat", "is no command line: no closing quotation"),
        ("--dtype float32", "weights of this dtype are not modelled, expected bfloat16 or float16"),
        ("--quantization gptq", "does not say how many bits a weight has, expected engine.dtype beside args"),
        ("--kv-cache-dtype nvfp4", "a KV cache of this dtype is not modelled"),
        ("--cpu-offload-gb 20", "--cpu-offload-gb: weights that are read over the host's link"),
        ("-dcp 2", "-dcp: a context that is split over GPUs"),
        ("--config serve.yaml", "--config: its settings are not read"),
        (
            "vllm serve Qwen/Qwen3-8B",
            "the command line serves Qwen/Qwen3-8B, and the scenario's model is llama-3.1-8b",
        ),
    ],
)
def test_what_cannot_be_right_is_refused_at_the_line(tmp_path: Path, line: str, message: str) -> None:
    (found,) = faults(with_args(tmp_path, line))
    assert found.startswith("s.yaml:13:9: engine.args: ")
    assert message in found


def test_a_value_that_the_key_refuses_is_a_fault_at_the_line(tmp_path: Path) -> None:
    found = faults(with_args(tmp_path, "--max-num-seqs many --no-enable-chunked-prefill"))
    assert [message.split(",")[0] for message in found] == [
        "s.yaml:13:9: engine.max_num_seqs: 'many' is no whole number",
        "s.yaml:13:9: engine.enable_chunked_prefill: an engine without chunked prefill is not modelled yet",
    ]


def test_values_that_change_nothing_are_not_left_out(tmp_path: Path) -> None:
    line = "--cpu-offload-gb 0 --no-enable-lora --stream-interval 1 -dcp 1 --runner generate --kv-transfer-config null"
    command = loaded(tmp_path, line).command_line
    assert command is not None
    assert command.not_modelled == ()


def test_a_key_beside_may_say_the_same_and_nothing_else(tmp_path: Path) -> None:
    line = "--max-num-seqs 64 --gpu-memory-utilization 0.9"
    assert (
        loaded(tmp_path, line, "  max_num_seqs: 64\n  gpu_memory_utilization: 90%\n").engine.max_num_seqs
        == 64
    )
    (found,) = faults(with_args(tmp_path, line, "  max_num_seqs: 65\n"))
    assert found == (
        "s.yaml:13:17: engine.max_num_seqs: 65 is not what the command line says: --max-num-seqs 64, "
        "expected one of them"
    )


def test_what_is_set_or_extends_wins_over_a_line(tmp_path: Path) -> None:
    path = with_args(tmp_path, "--max-num-seqs 64 --block-size 32")
    assert load(path, ["engine.max_num_seqs=65"]).engine.max_num_seqs == 65
    (tmp_path / "base.yaml").write_text(path.read_text())
    changed = load(written(tmp_path, "extends: base.yaml\nengine: {max_num_seqs: 66}\n"))
    assert (changed.engine.max_num_seqs, changed.engine.block_size) == (66, 32)
    replaced = load(written(tmp_path, "extends: base.yaml\nengine: {args: --max-num-seqs 67}\n"))
    assert (replaced.engine.max_num_seqs, replaced.engine.block_size) == (67, 16)
    assert load(path, ["engine.args=--max-num-seqs 68"]).engine.max_num_seqs == 68


def test_a_scenario_may_leave_the_model_to_its_line(tmp_path: Path) -> None:
    start = MINIMAL.replace("model: llama-3.1-8b\n", "")
    assert load(with_args(tmp_path, "vllm serve Qwen/Qwen3-8B -tp 1", start=start)).model.name == "qwen3-8b"


def test_a_model_that_the_catalog_does_not_know_is_noted(tmp_path: Path) -> None:
    command = loaded(tmp_path, "vllm serve /models/my-llama -tp 1").command_line
    assert command is not None
    assert command.notes == (
        "'/models/my-llama' of the command line is not in the catalog, and is planned as llama-3.1-8b",
    )


def test_keys_beside_say_what_a_flag_leaves_open(tmp_path: Path) -> None:
    tier = "  kv_offload: [{name: cpu, capacity: 64GiB, bandwidth: 25GB/s}]\n"
    for line, engine in (
        ("--kv-offloading-size 64", tier),
        ("--kv-cache-memory-bytes 9000000000", "  num_gpu_blocks: 4000\n"),
        ("--quantization gptq", "  dtype: int4\n"),
        ("--dtype bfloat16", "  dtype: fp8\n"),
    ):
        command = loaded(tmp_path, line, engine).command_line
        assert command is not None
        assert command.not_modelled == ()


def test_each_flag_is_in_one_list_and_each_short_one_is_a_flag() -> None:
    words = [
        word
        for names in (MODELLED, IGNORED, *NOT_MODELLED.values(), *REFUSED.values())
        for word in names.split()
    ]
    assert len(words) == len(FLAGS)
    assert set(SHORT.values()) <= set(FLAGS)
    assert all(flag.reason for flag in FLAGS.values() if flag.effect in (Effect.NOT_MODELLED, Effect.REFUSED))


@pytest.mark.parametrize("name", FLAGS)
def test_every_flag_is_read(name: str) -> None:
    flag = FLAGS[name]
    command = read_command(f"vllm serve model --{name}{'' if flag.values == '!' else ' 3'} --port 1")
    assert command.problems == []
    assert [stated.flag for stated in command.flags if stated.flag is not FLAGS["port"]] in ([flag], [])


drawn = st.fixed_dictionaries(
    {},
    optional={
        "max_num_seqs": st.integers(1, 512),
        "max_num_batched_tokens": st.integers(512, 65536),
        "max_model_len": st.integers(1, 131072),
        "block_size": st.integers(1, 256),
        "tensor_parallel_size": st.sampled_from([1, 2, 4, 8]),
        "data_parallel_size": st.integers(1, 8),
        "gpu_memory_utilization": st.floats(0.01, 1.0),
        "watermark": st.floats(0.0, 0.99),
        "dtype": st.sampled_from(["bfloat16", "float16"]),
        "kv_cache_dtype": st.sampled_from(["auto", "bfloat16", "fp8"]),
        "scheduling_policy": st.sampled_from(["fcfs", "priority"]),
        "long_prefill_token_threshold": st.integers(0, 4096),
        "enforce_eager": st.booleans(),
        "enable_prefix_caching": st.booleans(),
        "async_scheduling": st.booleans(),
        "scheduler_reserve_full_isl": st.booleans(),
    },
)
SHORTENED = {"tensor_parallel_size": "-tp", "data_parallel_size": "-dp"}


@st.composite
def lines(draw: st.DrawFn) -> tuple[dict[str, Any], str]:
    """Settings, and a command line that states them in one of the ways that vLLM reads."""
    chosen = draw(drawn)
    words = [draw(st.sampled_from(["vllm serve", "vllm serve llama-3.1-8b", ""]))]
    for key in draw(st.permutations(sorted(chosen))):
        value = chosen[key]
        name = key if draw(st.booleans()) else key.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{'' if value else 'no-'}{name}")
            continue
        flag = SHORTENED[key] if key in SHORTENED and draw(st.booleans()) else f"--{name}"
        text = shlex.quote(str(value)) if draw(st.booleans()) else f"'{value}'"
        words.append(f"{flag}{draw(st.sampled_from(['=', ' ', '  ']))}{text}")
    gap = draw(st.sampled_from([" ", " \\\n  ", "\n"]))
    return chosen, gap.join([*words, "--port 8000"])


@settings(max_examples=200, deadline=None)
@given(case=lines())
def test_what_is_written_as_a_line_is_read_again(case: tuple[dict[str, Any], str]) -> None:
    chosen, line = case
    meant = serve_settings(read_command(line), {})
    assert meant.problems == []
    assert {key: value for key, (_, value) in meant.keys.items()} == chosen


@settings(max_examples=300, deadline=None)
@given(text=st.text(alphabet="-= '\"{}\\$&|>abmnstxq_.019\n"))
def test_any_text_is_read_or_refused(text: str) -> None:
    serve_settings(read_command(text), {})


def test_a_value_that_is_nested_without_end_is_no_mapping(tmp_path: Path) -> None:
    nested = f"{'[' * 5000}{']' * 5000}"
    for flag in ("--limit-mm-per-prompt", "--limit-mm-per-prompt.image"):
        with pytest.raises(BadInput, match=r"limit.mm.per.prompt"):
            loaded(tmp_path, f"vllm serve {flag} {nested}")


def test_what_is_too_long_for_a_command_line_is_refused(tmp_path: Path) -> None:
    said = "is no command line: it has 40,012 characters, expected at most 32,768"
    with pytest.raises(BadInput, match=said):
        loaded(tmp_path, f"vllm serve {'x' * 40_000}")


def test_text_that_is_refused_says_so_once(tmp_path: Path) -> None:
    with pytest.raises(BadInput) as refusal:
        loaded(tmp_path, "vllm serve 'x")
    assert len(refusal.value.faults) == 1
