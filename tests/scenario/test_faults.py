from __future__ import annotations

from pathlib import Path

import pytest

from capsim.catalog import gpu_names, model_names
from tests.scenario.test_load import COUNT, ENGINE_KEYS, MINIMAL, faults, written

# Each case replaces one line of MINIMAL, or is put after it; MINIMAL has 11 lines.
TIER = "{name: cpu, capacity: 64GiB, bandwidth: 25GB/s}"
DURATION = "expected a duration such as '250ms'"
LINES = [
    (
        "version: 1",
        "version: 2",
        "s.yaml:1:10: version: 2 is no version of the scenario format that is known here, expected 1",
    ),
    ("version: 1", "seed: 1", "s.yaml:1:1: version: is missing, expected 1"),
    ("name: minimal", "name: 5", 's.yaml:2:7: name: 5 is a number, expected text; in quotes it is one: "5"'),
    (
        "model: llama-3.1-8b",
        "model: llama-3.1-9b",
        f"s.yaml:3:8: model: 'llama-3.1-9b' is not in the catalog, expected one of {', '.join(model_names())},"
        " did you mean 'llama-3.1-8b'?",
    ),
    ("gpu: h200", "gpu: [h200]", "s.yaml:4:6: gpu: a list is no text, expected text"),
    (
        "gpu: h200",
        "gpu: h300",
        f"s.yaml:4:6: gpu: 'h300' is not in the catalog, expected one of {', '.join(gpu_names())}, did you mean"
        " 'h200'?",
    ),
    (
        "  target: 4800/min",
        "  target: 80",
        "s.yaml:6:11: demand.target: 80 has no unit, expected a rate such as '80/s' or '17000 tokens/s'",
    ),
    (
        "  target: 4800/min",
        "  target: 0/s",
        "s.yaml:6:11: demand.target: '0/s' is not above 0, expected more than 0",
    ),
    (
        "  target: 4800/min",
        "  sampling: {}",
        "s.yaml:5:1: demand.target: is missing, expected a rate such as '80/s' or '17000 tokens/s'",
    ),
    (
        "  target: 4800/min",
        "  target: 1/s\n  trace: {path: azure_conv_2023.csv}",
        "s.yaml:8:3: demand.synthetic: trace is stated too, expected one of trace and synthetic",
    ),
    (
        "    output_tokens:",
        "    priorities: [{priority: 0, share: 20%}, {priority: 1, share: 70%}]\n    output_tokens:",
        "s.yaml:9:5: demand.synthetic.priorities: the shares sum up to 90%, expected 100%",
    ),
    (
        "    output_tokens:",
        "    priorities: [{priority: 0, share: 20%}, {priority: 0, share: 80%}]\n    output_tokens:",
        "s.yaml:9:56: demand.synthetic.priorities[1].priority: 0 is stated before, expected each priority once",
    ),
    (
        "    output_tokens:",
        "    prefix: {tokens: 513}\n    output_tokens:",
        "s.yaml:9:22: demand.synthetic.prefix.tokens: 513 is longer than any prompt, expected at most 512",
    ),
    (
        "    output_tokens:",
        "    prefix: {count: 3}\n    output_tokens:",
        "s.yaml:9:5: demand.synthetic.prefix.tokens: is missing",
    ),
    (
        "    output_tokens:",
        "    prefix: {tokens: 9, count: 0}\n    output_tokens:",
        f"s.yaml:9:32: demand.synthetic.prefix.count: 0 is too small, {COUNT} 1",
    ),
    (
        "    output_tokens:",
        "    prefix: {tokens: 9, share: 0%}\n    output_tokens:",
        "s.yaml:9:32: demand.synthetic.prefix.share: '0%' is out of range, expected more than 0% and at most 100%",
    ),
    (
        "    output_tokens:",
        "    prefix: {tokens: 9, shared: 50%}\n    output_tokens:",
        "s.yaml:9:25: demand.synthetic.prefix.shared: unknown key, expected one of tokens, count, share, did you "
        "mean 'share'?",
    ),
    (
        "distribution: fixed",
        "distribution: fxed",
        "s.yaml:8:20: demand.synthetic.prompt_tokens: distribution 'fxed' is not known, expected one of "
        "fixed, uniform, lognormal, geometric, did you mean 'fixed'?",
    ),
    (
        "{distribution: fixed, value: 512}",
        "{distribution: fixed}",
        "s.yaml:8:5: demand.synthetic.prompt_tokens.value: is missing",
    ),
    (
        "{distribution: fixed, value: 512}",
        "{distribution: fixed, value: 512, mean: 3}",
        "s.yaml:8:54: demand.synthetic.prompt_tokens.mean: unknown key, expected one of distribution, value",
    ),
    (
        "{distribution: fixed, value: 512}",
        "{distribution: uniform, low: 9, high: 3}",
        "s.yaml:8:58: demand.synthetic.prompt_tokens.high: 3 is less than low (9), expected at least 9",
    ),
    (
        "mean: 256",
        "mean: 0.5",
        "s.yaml:9:52: demand.synthetic.output_tokens.mean: 0.5 is out of range, expected tokens, at least 1",
    ),
    (
        "mean: 256",
        "mean: .inf",
        "s.yaml:9:52: demand.synthetic.output_tokens.mean: inf is no number, expected tokens, at least 1",
    ),
    ("p95: 500ms", "p95: 500", f"s.yaml:11:15: slo.ttft.p95: 500 has no unit, {DURATION}"),
    ("p95: 500ms", "p95: 0ms", "s.yaml:11:15: slo.ttft.p95: '0ms' is not above 0, expected more than 0"),
    (
        "p95: 500ms",
        "p101: 1s",
        "s.yaml:11:10: slo.ttft.p101: 'p101' is no percentile, expected p95 or the like, above p0 and at most p100",
    ),
    (
        "p95: 500ms",
        "p0: 1s",
        "s.yaml:11:10: slo.ttft.p0: 'p0' is no percentile, expected p95 or the like, above p0 and at most p100",
    ),
    (
        "p95: 500ms",
        "p95: 1s, p95.0: 2s",
        "s.yaml:11:26: slo.ttft.p95.0: the same percentile as p95, expected each once",
    ),
    (
        "  ttft: {p95: 500ms}",
        "  ttft: 500ms",
        "s.yaml:11:9: slo.ttft: '500ms' is no mapping, expected a mapping",
    ),
    (
        "  ttft: {p95: 500ms}",
        "",
        "s.yaml:10:1: slo: is missing, expected at least one objective such as ttft: {p95: 500ms}",
    ),
    (
        "  ttft: {p95: 500ms}",
        "  ttft: {}",
        "s.yaml:11:3: slo: states no objective, expected at least one objective such as ttft: {p95: 500ms}",
    ),
    (
        "  ttft: {p95: 500ms}",
        "  error_rate: 100%",
        "s.yaml:11:15: slo.error_rate: '100%' is out of range, expected at least 0% and less than 100%",
    ),
]
ENDS = [
    (
        "engine: {max_num_seq: 3}",
        f"s.yaml:12:10: engine.max_num_seq: unknown key, expected one of {ENGINE_KEYS}, did you mean 'max_num_seqs'?",
    ),
    (
        "engine: {dtype: bf16}",
        "s.yaml:12:17: engine.dtype: 'bf16' is not known, expected one of bfloat16, float16, fp8, int8, int4, "
        "did you mean 'bfloat16'?",
    ),
    (
        "engine: {kv_cache_dtype: int4}",
        "s.yaml:12:26: engine.kv_cache_dtype: 'int4' is not known, expected one of auto, bfloat16, fp8",
    ),
    (
        "engine: {name: sglang}",
        "s.yaml:12:16: engine.name: 'sglang' is not known (only vllm is modelled in this version), expected vllm",
    ),
    (
        "engine: {version: 0.20}",
        's.yaml:12:19: engine.version: 0.2 is a number, expected text; in quotes it is one: "0.2"',
    ),
    (
        "engine: {async_scheduling: 1}",
        "s.yaml:12:28: engine.async_scheduling: 1 is neither true nor false, expected true or false",
    ),
    (
        "engine: {enable_prefix_caching: off}",
        "s.yaml:12:33: engine.enable_prefix_caching: 'off' is neither true nor false, expected true or false",
    ),
    (
        "engine: {enable_chunked_prefill: false}",
        "s.yaml:12:34: engine.enable_chunked_prefill: an engine without chunked prefill is not modelled "
        "yet, expected true",
    ),
    (
        "engine: {max_num_partial_prefills: 4}",
        "s.yaml:12:36: engine.max_num_partial_prefills: vLLM's V1 engine refuses another (0.19: 'Concurrent Partial "
        "Prefill is not supported'); long_prefill_token_threshold alone lets several prompts be half computed, "
        "expected 1",
    ),
    (
        "engine: {max_long_partial_prefills: true}",
        "s.yaml:12:37: engine.max_long_partial_prefills: true is no whole number, expected 1",
    ),
    (
        "engine: {scheduling_policy: prio}",
        "s.yaml:12:29: engine.scheduling_policy: 'prio' is not known, expected one of fcfs, priority, "
        "did you mean 'priority'?",
    ),
    (
        "engine: {long_prefill_token_threshold: -1}",
        "s.yaml:12:40: engine.long_prefill_token_threshold: -1 is too small, expected a whole number, at least 0",
    ),
    (
        "engine: {scheduler_reserve_full_isl: on}",
        "s.yaml:12:38: engine.scheduler_reserve_full_isl: 'on' is neither true nor false, expected true "
        "or false, did you mean 'true'?",
    ),
    (
        "engine: {max_model_len: 8k}",
        f"s.yaml:12:25: engine.max_model_len: '8k' is no whole number, {COUNT} 1",
    ),
    (
        "engine: {max_num_seqs: true}",
        f"s.yaml:12:24: engine.max_num_seqs: true is no whole number, {COUNT} 1",
    ),
    (
        "engine: {max_model_len: 131073}",
        "s.yaml:12:25: engine.max_model_len: 131073 is longer than llama-3.1-8b was published for, "
        "expected at most 131072",
    ),
    (
        "engine: {max_num_batched_tokens: 255}",
        "s.yaml:12:34: engine.max_num_batched_tokens: 255 is less than max_num_seqs (256), expected at least 256",
    ),
    (
        "engine: {tensor_parallel_size: 3}",
        "s.yaml:12:32: engine.tensor_parallel_size: 3 GPUs cannot share llama-3.1-8b (32 attention "
        "heads, 8 KV heads, 14336 MLP columns), expected one of 1, 2, 4, 8, 16, 32",
    ),
    (
        "engine: {pipeline_parallel_size: 33}",
        "s.yaml:12:34: engine.pipeline_parallel_size: 33 stages cannot hold 32 layers, expected at most 32",
    ),
    (
        "engine: {data_parallel_size: 0}",
        f"s.yaml:12:30: engine.data_parallel_size: 0 is too small, {COUNT} 1",
    ),
    (
        "engine: {enable_expert_parallel: true}",
        "s.yaml:12:34: engine.enable_expert_parallel: llama-3.1-8b has no experts, expected false",
    ),
    (
        "step_cost: {source: roofline, routing_skew: -1}",
        "s.yaml:12:45: step_cost.routing_skew: -1 is out of range, expected 0 (uniform) or more",
    ),
    (
        "engine: {gpu_memory_utilization: 92}",
        "s.yaml:12:34: engine.gpu_memory_utilization: 92 is more than the whole, expected a share such "
        "as '5%' or 0.05, did you mean '92%'?",
    ),
    (
        "engine: {gpu_memory_utilization: 0}",
        "s.yaml:12:34: engine.gpu_memory_utilization: 0 is out of range, expected more than 0% and at most 100%",
    ),
    ("engine: {num_gpu_blocks: 1}", f"s.yaml:12:26: engine.num_gpu_blocks: 1 is too small, {COUNT} 2"),
    (
        "engine: {num_gpu_blocks: 9, num_gpu_blocks_override: 9}",
        "s.yaml:12:54: engine.num_gpu_blocks_override: num_gpu_blocks is stated too, and is the same "
        "setting, expected one of them",
    ),
    (
        "engine: {watermark: 100%}",
        "s.yaml:12:21: engine.watermark: '100%' is out of range, expected at least 0% and less than 100%",
    ),
    (
        "engine: {kv_offload: {name: cpu}}",
        "s.yaml:12:22: engine.kv_offload: a mapping is no list, expected a list",
    ),
    (
        "engine: {kv_offload: [{name: cpu, capacity: 64, bandwidth: 25GB/s}]}",
        "s.yaml:12:45: engine.kv_offload[0].capacity: 64 has no unit, expected a size such as '80GiB'",
    ),
    (
        "engine: {kv_offload: [{name: cpu, capacity: 64GiB}]}",
        "s.yaml:12:23: engine.kv_offload[0].bandwidth: is missing",
    ),
    (
        "engine: {kv_offload: [{name: cpu, capacity: 64GiB, bandwidth: 25GB}]}",
        "s.yaml:12:63: engine.kv_offload[0].bandwidth: unit 'GB' is not known here, expected a bandwidth such as "
        "'4.8TB/s', did you mean '25GB/s'?",
    ),
    (
        f"engine: {{kv_offload: [{TIER}, {TIER}]}}",
        "s.yaml:12:79: engine.kv_offload[1].name: there is a tier 'cpu' before, expected each name once",
    ),
    (
        f"engine: {{enable_prefix_caching: false, kv_offload: [{TIER}]}}",
        "s.yaml:12:40: engine.kv_offload: offloaded KV is found as a prefix is, and enable_prefix_caching is false, "
        "expected enable_prefix_caching: true",
    ),
    (
        "engine: {limit_mm_per_prompt: {image: 1}}",
        "s.yaml:12:39: engine.limit_mm_per_prompt.image: the catalog knows no vision encoder of llama-3.1-8b, "
        "expected 0",
    ),
    (
        "engine: {limit_mm_per_prompt: {video: 1}}",
        "s.yaml:12:32: engine.limit_mm_per_prompt.video: unknown key, expected one of image",
    ),
    ("engine: []", "s.yaml:12:9: engine: a list is no mapping, expected a mapping"),
    (
        "step_cost: {source: rofline}",
        "s.yaml:12:12: step_cost: source 'rofline' is not known, expected one of roofline, profile, "
        "constant, linear, did you mean 'roofline'?",
    ),
    (
        "step_cost: {source: constant, second: 1ms}",
        "s.yaml:12:31: step_cost.second: unknown key, expected one of source, seconds, did you mean 'seconds'?",
    ),
    (
        "step_cost: {compute_efficiency: 120%}",
        "s.yaml:12:33: step_cost.compute_efficiency: '120%' is out of range, expected more than 0% and at most 100%",
    ),
    (
        "step_cost: {source: profile, path: no.json}",
        "s.yaml:12:36: step_cost.path: there is no file 'no.json', expected a file beside the scenario "
        "or an absolute path",
    ),
    (
        "fleet: {router: random}",
        "s.yaml:12:17: fleet.router: 'random' is not known, expected one of round_robin, least_outstanding",
    ),
    ("fleet: {latencies: {network: 2}}", f"s.yaml:12:30: fleet.latencies.network: 2 has no unit, {DURATION}"),
    (
        "fleet: {failures: [{replica: 1, at: 1s}]}",
        "s.yaml:12:30: fleet.failures[0].replica: there is no replica 1, expected 0",
    ),
    ("fleet: {replicas: 2, failures: [{replica: 1}]}", "s.yaml:12:33: fleet.failures[0].at: is missing"),
    (
        "plan: {drills: [replica_mising]}",
        "s.yaml:12:17: plan.drills[0]: 'replica_mising' is not known, expected replica_missing, did you "
        "mean 'replica_missing'?",
    ),
    (
        "plan: {reserve: -1%}",
        "s.yaml:12:17: plan.reserve: '-1%' is negative, expected a share such as '5%' or 0.05",
    ),
    (
        "plan: {duration: 10 minutes}",
        f"s.yaml:12:18: plan.duration: unit 'minutes' is not known here, {DURATION}, did you mean '10min'?",
    ),
    (
        "sed: 1",
        "s.yaml:12:1: sed: unknown key, expected one of version, name, model, gpu, engine, step_cost, "
        "demand, fleet, slo, plan, validation, seed, extends, did you mean 'seed'?",
    ),
    ("gpu: h100", "s.yaml:12:1: gpu: duplicate key, first stated at 4:1, expected each key once"),
    ("seed: -1", f"s.yaml:12:7: seed: -1 is too small, {COUNT} 0"),
    (
        "=roofline: 1",
        "s.yaml:12:1: =roofline: unknown key, expected one of version, name, model, gpu, engine, "
        "step_cost, demand, fleet, slo, plan, validation, seed",
    ),
]


@pytest.mark.parametrize(("old", "new", "message"), LINES)
def test_a_bad_line_is_refused_at_its_place(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in MINIMAL
    found = faults(written(tmp_path, MINIMAL.replace(old, new)))
    assert found[0].startswith(message)
    assert len(found) == 1


@pytest.mark.parametrize(("line", "message"), ENDS)
def test_a_bad_section_is_refused_at_its_place(tmp_path: Path, line: str, message: str) -> None:
    (found,) = faults(written(tmp_path, f"{MINIMAL}{line}\n"))
    assert found.startswith(message)


def test_syntax_errors_end_as_faults_too(tmp_path: Path) -> None:
    (found,) = faults(written(tmp_path, MINIMAL + "engine:\n\tdtype: fp8\n"))
    assert found == "s.yaml:13:1: a tab where YAML needs spaces, expected spaces"
