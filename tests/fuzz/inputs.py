"""Every kind of file that capsim reads, a sound one of each, and the commands that read it."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path

from tests.benchmark.result_files import FILES
from tests.calibrate.microbenchmark.fake_bench import FakeBench, run_of
from tests.cost.profiles import document
from tests.fuzz.input import Content, Input, file_content, shortened_content, text_content
from tests.fuzz.run_folders import RUN_FOLDERS

REPOSITORY = Path(__file__).parents[2]
CONFIGS = REPOSITORY / "configs"
SAMPLES = REPOSITORY / "tests" / "calibrate" / "samples"
TRACES = REPOSITORY / "tests" / "workload" / "traces"

SCENARIO = """\
version: 1
name: damaged
model: MODEL
gpu: GPU
engine:
  version: "0.19.0"
  max_model_len: 4096
  max_num_seqs: 64
  num_gpu_blocks: 4000
  enable_prefix_caching: true
step_cost: STEP_COST
demand:
  target: 60/s
  DEMAND
fleet:
  replicas: 2
  router: round_robin
  latencies: {network: 2ms, gateway: 1ms}
slo:
  ttft: {p95: 400ms}
  tpot: {p95: 40ms}
  error_rate: 0.1%
plan: {reserve: 20%, drills: [replica_missing], duration: 10s, replications: 3, resolution: 30%}
seed: 3
"""
STEP_COST = "{source: linear, base: 8ms, per_prefill_token: 30us, per_context_token: 40ns}"
SYNTHETIC = """synthetic:
    prompt_tokens: {distribution: lognormal, mean: 300, cv: 0.8, max: 2000}
    output_tokens: {distribution: geometric, mean: 60}"""
SERVICE = str(CONFIGS / "benchmarks" / "tinyllama-cpu.yaml")


def scenario(
    model: str = "llama-3.1-8b", gpu: str = "h200", step_cost: str = STEP_COST, demand: str = SYNTHETIC
) -> str:
    """A scenario in whose place of one thing a file is named."""
    texts = {"MODEL": model, "GPU": gpu, "STEP_COST": step_cost, "DEMAND": demand}
    text = SCENARIO
    for place, value in texts.items():
        text = text.replace(place, value)
    return text


LONG_SCENARIO = (
    scenario(demand="trace: {path: trace.jsonl, format: mooncake}")
    .replace("max_model_len: 4096", "max_model_len: 65536")
    .replace("num_gpu_blocks: 4000", "num_gpu_blocks: 16000")
)
"""For prompts of tens of thousands of tokens."""


def _profile() -> bytes:
    return json.dumps(document(), indent=1).encode()


def _config() -> bytes:
    """A config.json as a model on Hugging Face has it."""
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "vocab_size": 128256,
        "max_position_embeddings": 131072,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        "rope_scaling": {"factor": 8.0, "rope_type": "llama3"},
    }
    return json.dumps(config, indent=2).encode()


AZURE = (
    "TIMESTAMP,ContextTokens,GeneratedTokens\n"
    "2023-11-16 18:17:03.9799600,374,44\n"
    "2023-11-16 18:17:04.0319600,396,109\n"
    "2023-11-16 18:17:04.0787420,879,55\n"
    "2023-11-16 18:17:04.3237530,91,16\n"
)
STEPS_HEADER = (
    "case,kind,t_start,t_sched_end,t_end,n_prefill_reqs,prefill_tokens,prefill_ctx,n_decode,decode_ctx,n_new,"
    "w_exec_start,w_exec_end,w_sample_start,w_sample_end,chunks,decode_squares,decode_longest"
)
STARTUP_LOG = (
    "INFO 11-30 10:00:00 [gpu_model_runner.py:1001] Model loading took 14.99 GiB and 3.2 seconds\n"
    "INFO 11-30 10:00:20 [gpu_worker.py:276] Available KV cache memory: 105.32 GiB\n"
    "INFO 11-30 10:00:21 [kv_cache_utils.py:850] GPU KV cache size: 862,784 tokens\n"
    "INFO 11-30 10:00:21 [kv_cache_utils.py:854] Maximum concurrency for 16,384 tokens per request: 52.66x\n"
)


def _step_rows(prompts: Sequence[int] = (16, 64, 256, 1024)) -> bytes:
    """Steps of an engine that takes 5 ms, 0.1 ms a token and a nanosecond a token of context."""
    rows, start = [STEPS_HEADER], 0.0
    batches = [(new, 0, 0) for new in prompts]
    batches += [(0, decodes, context) for decodes in (1, 4, 16) for context in (100, 1000)]
    for new, decodes, context in batches:
        total = decodes * context
        seconds = 5e-3 + 1e-4 * (new + decodes) + 1e-9 * total
        times = (start, start + 1e-3, start + seconds)
        worker = (start + 1e-3, start + seconds - 2e-3, start + seconds - 2e-3, start + seconds - 1e-3)
        counts = (int(new > 0), new, 0, decodes, total, int(new > 0))
        unequal = (f"{new}@0" if new else "", decodes * context**2, context if decodes else 0)
        rows.append(",".join(map(str, ("a", "admit", *times, *counts, *worker, *unequal))))
        start += seconds
    return "\n".join([*rows, ""]).encode()


COMMAND_LINE = r"""VLLM_LOGGING_LEVEL=DEBUG vllm serve meta-llama/Llama-3.1-8B-Instruct \
  --host 0.0.0.0 --port 8000 --served-model-name 'chat model' \
  --max-model-len 4k --max-num-seqs=64 --enable-prefix-caching -tp 1 \
  --gpu_memory_utilization 0.92 --limit-mm-per-prompt.image 0 \
  --compilation-config '{"cudagraph_mode": "FULL", "level": 3}' --enable-chunked-prefill \
  --max-num-batched-tokens 8192 --enable-lora --max-loras 4 > log 2>&1 &
"""
BASE = "version: 1\nextends: first.yaml\nname: base\nslo:\n  tpot: null\nengine: {max_num_batched_tokens: 1024}\n"
EXTENDED = "extends: base.yaml\nname: extended\nengine:\n  max_num_seqs: 32\nfleet: {replicas: 3}\n"


def _pasted(command_line: bytes) -> bytes:
    """A scenario with this command line in place of its settings."""
    args = json.dumps(command_line.decode("utf-8", "replace"))
    return (
        scenario()
        .replace("  max_model_len: 4096\n  max_num_seqs: 64\n", f"  args: {args}\n")
        .replace("  enable_prefix_caching: true\n", "")
        .encode()
    )


@cache
def _raw() -> bytes:
    """What a device that follows a law measures, at the fewest shapes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "raw.jsonl"
        run_of(FakeBench(), path, minutes=0.01).measure()
        return path.read_bytes()


OF_SCENARIOS = (
    "check FOLDER/scenario.yaml",
    "fit FOLDER/scenario.yaml",
    "run FOLDER/scenario.yaml --requests 20",
)
OF_TRACES = (
    "check FOLDER/scenario.yaml",
    "run FOLDER/scenario.yaml --requests 20",
    "run FOLDER/scenario.yaml --trace",
)
OF_MODELS = ("check FOLDER/scenario.yaml", "fit FOLDER/scenario.yaml")
STEP_FILES = "calibrate check FOLDER/profile.json --against FOLDER/{file} --from {kind} --force"
STEP_FIT = (
    "calibrate fit --engine-steps FOLDER/steps.csv --model llama-3.1-8b --gpu h200 --out FOLDER/out.json"
)
STEP_IMPORT = (
    "calibrate import --from {kind} FOLDER/{file} --model llama-3.1-8b --gpu h200 --engine vllm --engine-version 1 "
    "--out FOLDER/out.json"
)


def _benchmark(name: str, file: str, content: Content) -> Input:
    return Input(f"{name} result", file, content, (f"validate FOLDER/{file} --scenario {SERVICE}",))


def _steps(kind: str, file: str, content: Content) -> Input:
    commands = tuple(text.format(kind=kind, file=file) for text in (STEP_FILES, STEP_IMPORT))
    return Input(f"{kind} steps", file, content, commands, {"profile.json": json.dumps(document())})


def _model(name: str) -> Input:
    content = file_content(CONFIGS / "models" / f"{name}.yaml")
    return Input(
        f"model {name}", "model.yaml", content, OF_MODELS, {"scenario.yaml": scenario(model="./model.yaml")}
    )


INPUTS = (
    Input("scenario", "scenario.yaml", text_content(scenario()), OF_SCENARIOS, examples=100),
    Input(
        "quick start",
        "scenario.yaml",
        file_content(CONFIGS / "scenarios" / "chat-llama-3.1-8b-h200.yaml"),
        OF_MODELS,
    ),
    Input(
        "extending scenario",
        "scenario.yaml",
        text_content(EXTENDED),
        OF_SCENARIOS,
        {"base.yaml": BASE, "first.yaml": scenario()},
        examples=40,
    ),
    Input(
        "base of a base",
        "first.yaml",
        text_content(scenario()),
        OF_SCENARIOS,
        {"base.yaml": BASE, "scenario.yaml": EXTENDED},
        examples=40,
    ),
    Input(
        "base",
        "base.yaml",
        text_content(BASE),
        OF_SCENARIOS,
        {"first.yaml": scenario(), "scenario.yaml": EXTENDED},
        examples=40,
    ),
    Input(
        "command line",
        "scenario.yaml",
        text_content(COMMAND_LINE),
        OF_MODELS,
        examples=30,
        frame=_pasted,
    ),
    Input(
        "Azure trace",
        "trace.csv",
        text_content(AZURE),
        OF_TRACES,
        {"scenario.yaml": scenario(demand="trace: {path: trace.csv, format: azure}")},
        examples=40,
    ),
    Input(
        "Mooncake trace",
        "trace.jsonl",
        file_content(TRACES / "mooncake_arxiv_mixed_93.jsonl", 6),
        ("check FOLDER/scenario.yaml", "check FOLDER/scenario.yaml", "run FOLDER/scenario.yaml --trace"),
        {"scenario.yaml": LONG_SCENARIO},
        examples=40,
    ),
    Input(
        "profile",
        "profile.json",
        _profile,
        ("calibrate show FOLDER/profile.json", *OF_SCENARIOS),
        {"scenario.yaml": scenario(step_cost="{source: profile, path: profile.json}")},
        examples=40,
    ),
    *map(_model, ("llama-3.1-8b", "deepseek-v3", "gpt-oss-20b", "nemotron-h-8b")),
    Input(
        "config.json",
        "config.json",
        _config,
        ("catalog add-model FOLDER/config.json --name mine --out FOLDER/mine.yaml",),
        examples=40,
    ),
    _benchmark("vLLM", "result.json", shortened_content(FILES / "vllm" / "rate2.json")),
    _benchmark("SGLang", "result.jsonl", file_content(FILES / "sglang" / "two_runs.jsonl")),
    _benchmark("GuideLLM", "result.json", shortened_content(FILES / "guidellm" / "two_rates.json")),
    _benchmark("AIPerf", "result.jsonl", file_content(FILES / "aiperf" / "one_rate.jsonl", 6)),
    _benchmark("genai-perf", "result.json", file_content(FILES / "genai_perf" / "profile_export.json")),
    _benchmark(
        "inference-perf",
        "result.json",
        shortened_content(FILES / "inference_perf" / "per_request_lifecycle_metrics.json"),
    ),
    _benchmark("CSV", "result.csv", file_content(FILES / "csv" / "own_names.csv")),
    _steps("engine-steps", "steps.csv", _step_rows),
    Input("steps to fit", "steps.csv", _step_rows, (STEP_FIT,)),
    Input(
        "raw measurements",
        "raw.jsonl",
        _raw,
        ("calibrate fit FOLDER/raw.jsonl --out FOLDER/out.json",),
    ),
    Input(
        "steps beside raw measurements",
        "steps.csv",
        partial(_step_rows, (8, 16, 32, 64, 128, 256)),
        ("calibrate fit FOLDER/raw.jsonl --engine-steps FOLDER/steps.csv --out FOLDER/out.json",),
        {"raw.jsonl": _raw},
    ),
    _steps("dynamo-fpm", "steps.jsonl", file_content(SAMPLES / "steps" / "dynamo_fpm.jsonl")),
    _steps("sglang-one-batch", "steps.jsonl", file_content(SAMPLES / "steps" / "sglang_one_batch.jsonl")),
    _steps("vllm-bench-forward", "steps.json", file_content(SAMPLES / "steps" / "vllm_bench_forward.json")),
    Input(
        "start-up log",
        "vllm.log",
        text_content(STARTUP_LOG),
        ("fit FOLDER/scenario.yaml --log FOLDER/vllm.log",),
        {"scenario.yaml": scenario()},
    ),
    *RUN_FOLDERS,
)
