"""Every kind of file that capsim reads, a sound one of each, and the commands that read it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from tests.benchmark.result_files import FILES
from tests.cost.profiles import document

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

Content = Callable[[], bytes]


@dataclass(frozen=True)
class Input:
    """A kind of file.

    Attributes:
        name: what it is.
        file: its name when it is damaged.
        sound: makes the bytes of a sound one.
        commands: each reads it; ``FOLDER`` stands for where it lies.
        beside: sound files in the same folder, by name.
        examples: how many damaged ones the tests draw.
    """

    name: str
    file: str
    sound: Content
    commands: tuple[str, ...]
    beside: dict[str, str] = field(default_factory=dict)
    examples: int = 25

    @cached_property
    def content(self) -> bytes:
        """A sound file's bytes."""
        return self.sound()

    def write(self, folder: Path, content: bytes) -> None:
        """Lay the file, with these bytes, and those beside it into a folder."""
        for name, text in self.beside.items():
            (folder / name).write_text(text, encoding="utf-8")
        (folder / self.file).write_bytes(content)


def _text(text: str) -> Content:
    return text.encode


def _file(path: Path, lines: int | None = None) -> Content:
    return lambda: b"".join(path.read_bytes().splitlines(keepends=True)[:lines])


def _profile() -> bytes:
    return json.dumps(document(), indent=1).encode()


def _shortened(path: Path, count: int = 8) -> Content:
    """A JSON result with the first items of each list, so that a damage often hits what matters."""

    def cut(value: Any) -> Any:
        if isinstance(value, list):
            return [cut(item) for item in value[:count]]
        return {key: cut(item) for key, item in value.items()} if isinstance(value, dict) else value

    return lambda: json.dumps(cut(json.loads(path.read_text(encoding="utf-8"))), indent=1).encode()


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


def _step_rows() -> bytes:
    """Steps of an engine that takes 5 ms, 0.1 ms a token and a nanosecond a token of context."""
    rows, start = [STEPS_HEADER], 0.0
    batches = [(new, 0, 0) for new in (16, 64, 256, 1024)]
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
    content = _file(CONFIGS / "models" / f"{name}.yaml")
    return Input(
        f"model {name}", "model.yaml", content, OF_MODELS, {"scenario.yaml": scenario(model="./model.yaml")}
    )


INPUTS = (
    Input("scenario", "scenario.yaml", _text(scenario()), OF_SCENARIOS, examples=100),
    Input(
        "quick start",
        "scenario.yaml",
        _file(CONFIGS / "scenarios" / "chat-llama-3.1-8b-h200.yaml"),
        OF_MODELS,
    ),
    Input(
        "Azure trace",
        "trace.csv",
        _text(AZURE),
        OF_TRACES,
        {"scenario.yaml": scenario(demand="trace: {path: trace.csv, format: azure}")},
        examples=40,
    ),
    Input(
        "Mooncake trace",
        "trace.jsonl",
        _file(TRACES / "mooncake_arxiv_mixed_93.jsonl", 6),
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
    _benchmark("vLLM", "result.json", _shortened(FILES / "vllm" / "rate2.json")),
    _benchmark("SGLang", "result.jsonl", _file(FILES / "sglang" / "two_runs.jsonl")),
    _benchmark("GuideLLM", "result.json", _shortened(FILES / "guidellm" / "two_rates.json")),
    _benchmark("AIPerf", "result.jsonl", _file(FILES / "aiperf" / "one_rate.jsonl", 6)),
    _benchmark("genai-perf", "result.json", _file(FILES / "genai_perf" / "profile_export.json")),
    _benchmark(
        "inference-perf",
        "result.json",
        _shortened(FILES / "inference_perf" / "per_request_lifecycle_metrics.json"),
    ),
    _benchmark("CSV", "result.csv", _file(FILES / "csv" / "own_names.csv")),
    _steps("engine-steps", "steps.csv", _step_rows),
    _steps("dynamo-fpm", "steps.jsonl", _file(SAMPLES / "steps" / "dynamo_fpm.jsonl")),
    _steps("sglang-one-batch", "steps.jsonl", _file(SAMPLES / "steps" / "sglang_one_batch.jsonl")),
    _steps("vllm-bench-forward", "steps.json", _file(SAMPLES / "steps" / "vllm_bench_forward.json")),
    Input(
        "start-up log",
        "vllm.log",
        _text(STARTUP_LOG),
        ("fit FOLDER/scenario.yaml --log FOLDER/vllm.log",),
        {"scenario.yaml": scenario()},
    ),
)
