from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from capsim.catalog import load_gpu, load_model
from capsim.catalog.loader import known_model
from capsim.engine import EngineConfiguration
from capsim.memory.weights import weight_bytes
from tests.truth.public import refusal
from tests.truth.public.flags import Flags
from tests.truth.public.lengths import Length
from tests.truth.public.load import CLOSED, Load, load_of, requests_of, told_lengths
from tests.truth.public.page import COMMAND, HEAD, PAGE
from tests.truth.public.refusal import Refused
from tests.truth.public.rows import Measured, Row, missing, rows
from tests.truth.public.run import EQUAL, Run, result_of
from tests.truth.public.service import GPUS, MODELS, hardware_of
from tests.truth.public.tables import every_run, refused, targets
from tests.truth.public.worst import CAUSES, silence

CELLS = {
    "id": "MADE-UP",
    "source_url_or_repo_path": "github.com/nobody/nothing@0123 docs/a/page.md line 7",
    "gpu": "H200-SXM-141GB",
    "n_gpus": "1",
    "tp": "1",
    "pp": "1",
    "model": "meta-llama/Llama-3.1-8B",
    "weight_dtype": "bf16",
    "kv_dtype": "",
    "engine": "vllm",
    "engine_version": "0.11.0",
    "flags": "vllm serve meta-llama/Llama-3.1-8B",
    "dataset": "random",
    "input_len": "128",
    "output_len": "8",
    "arrival": "all at once",
    "rate_or_concurrency": "inf req/s",
    "num_prompts": "4",
    "req_per_s": "",
    "out_tok_s": "100",
    "ttft_mean_ms": "30",
    "ttft_p50_ms": "",
    "ttft_p99_ms": "50",
    "ttft_other_ms": "",
    "tpot_mean_ms": "10",
    "tpot_other_ms": "",
    "e2e_mean_ms": "",
    "notes": "",
    "source_group": "nobody",
    "quality": "A",
}


def made_up(**cells: str) -> Row:
    return Row({**CELLS, **cells})


@pytest.mark.parametrize(
    ("text", "stated"),
    [
        ("vllm serve x", Flags()),
        (
            "--max-model-len 4096 --max-num-batched-tokens 2048 --max-num-seqs 128",
            Flags(max_num_seqs=128, max_num_batched_tokens=2048),
        ),
        ("max-num-batched-tokens=512 enable-prefix-caching=FALSE", Flags(None, 512, enable_prefix_caching=False)),
        (
            "max_num_tokens=2560 max_batch_size=64 kvcache_free_gpu_mem_frac=0.9 gpu_batch_size=512",
            Flags(max_num_seqs=64, max_num_batched_tokens=2560, kv_fraction=0.9),
        ),
        ("--gpu_memory_utilization=0.9 --enable-prefix-caching", Flags(gpu_memory_utilization=0.9,
                                                                      enable_prefix_caching=True)),
        ("--max-num-seqs $CONC --no-enable-prefix-caching", Flags(seqs_are_clients=True,
                                                                 enable_prefix_caching=False)),
        ("KV cache 16 GiB (299,584 tokens), kv watermark 0.02", Flags(watermark=0.02, kv_tokens=299_584)),
        ("--model-path m --tp-size 4 --ep-size 4 --cuda-graph-max-bs 8", Flags(cuda_graph_max_bs=8,
                                                                              expert_parallel=True)),
        ("serve -tp 8 --enable-expert-parallel --async-scheduling", Flags(expert_parallel=True,
                                                                         async_scheduling=True)),
        ("dp=2 expert_parallel=True", Flags(data_parallel=True)),
        ("--speculative-algorithm EAGLE", Flags(speculative=True)),
    ],
)  # fmt: skip
def test_flags_are_read(text: str, stated: Flags) -> None:
    assert Flags.of(text) == stated


@pytest.mark.parametrize(
    ("cells", "load", "words"),
    [
        ({}, Load("all at once", 4), "4 at once"),
        ({"num_prompts": "3000 (for 1024/1024)"}, Load("all at once", 3000), "3000 at once"),
        ({"arrival": "fixed batch", "rate_or_concurrency": "batch 16", "num_prompts": ""}, Load("all at once", 16),
         "16 at once"),
        ({"arrival": "closed loop", "rate_or_concurrency": "64 concurrency", "num_prompts": ""},
         Load(CLOSED, 640, clients=64), "64 clients"),
        ({"arrival": "poisson", "rate_or_concurrency": "10 req/s"}, Load("Poisson", 4, 10.0), "Poisson 10/s"),
        ({"arrival": "poisson (LoadGen)", "rate_or_concurrency": "0.5 req/s target", "num_prompts": ""},
         Load("Poisson", 300, 0.5), "Poisson 0.5/s"),
        ({"arrival": "poisson (LoadGen)", "rate_or_concurrency": "0.5 req/s target", "num_prompts": "",
          "notes": "TTFT limit ms=6000; performance_sample_count=8313"},
         Load("Poisson", 8313, 0.5), "Poisson 0.5/s"),
        ({"arrival": "constant rate", "rate_or_concurrency": "5 req/s for 600 s", "num_prompts": "2990"},
         Load("constant rate", 3000, 5.0), "5/s"),
        ({"arrival": "constant rate", "rate_or_concurrency": "254 req/s", "notes": "achieved send rate 177.5; x"},
         Load("constant rate", 4, 177.5), "177.5/s"),
    ],
)  # fmt: skip
def test_loads_are_read(cells: dict[str, str], load: Load, words: str) -> None:
    assert load_of(made_up(**cells)) == load
    assert load.words == words


def test_a_load_that_is_not_known_is_no_load() -> None:
    with pytest.raises(ValueError, match="MADE-UP"):
        load_of(made_up(arrival="in tides", rate_or_concurrency="2 a day"))


@pytest.mark.parametrize(
    ("cells", "prompt", "output"),
    [
        ({}, Length(128), Length(8)),
        ({"input_len": "1996.3 mean", "output_len": "61.6 mean (64 asked)"}, Length(1996.3), Length(61.6)),
        ({"input_len": "~20000 (+-15%)", "output_len": "~2000 (+-15%)"}, Length(20000, 0.85, 1.15),
         Length(2000, 0.85, 1.15)),
        ({"input_len": "~1000", "dataset": "random range-ratio 0.2"}, Length(1000, 0.8, 1.2), Length(8, 0.8, 1.2)),
        ({"source_group": "gpustack-perf-lab", "dataset": "fa3", "input_len": "217.4 mean", "output_len": "201 mean"},
         Length(217.4, spread=1.1), Length(201, spread=0.9)),
    ],
)  # fmt: skip
def test_lengths_are_read(cells: dict[str, str], prompt: Length, output: Length) -> None:
    lengths = told_lengths(made_up(**cells))
    assert lengths is not None
    assert (lengths.prompt, lengths.output) == (prompt, output)


def test_drawn_lengths_keep_the_mean() -> None:
    draws = np.random.default_rng(0)
    spread = Length(217.4, spread=1.1).draw(1000, draws)
    assert spread.mean() == pytest.approx(217.4, abs=0.5)  # each is rounded
    assert spread.min() >= 1
    assert spread.std() > 150
    assert set(Length(1996.3).draw(10, draws)) == {1996}
    uniform = Length(1000, 0.8, 1.2).draw(10_000, draws)
    assert (uniform.min(), uniform.max()) == (800, 1200)


def test_prompts_of_the_shared_prefix_generator_come_again() -> None:
    row = made_up(
        notes="10 system prompts x 10 users, system_prompt_len=128 question_len=64",
        arrival="constant rate",
        rate_or_concurrency="10 req/s",
        num_prompts="250",
        input_len="203.4 mean",
    )
    load = load_of(row)
    requests = requests_of(row, load, told_lengths(row))
    assert requests.prefixes is not None
    paths = [requests.prefixes.path(index) for index in range(250)]
    assert paths[0] == paths[100] == paths[200]
    assert len(set(paths)) == 100
    assert len({path[0] for path in paths}) == 10
    assert {tuple(end for _, end in path) for path in paths} == {(128, 203)}
    assert requests.arrival[-1] == pytest.approx(25)


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        ({"engine": "vllm (1 prefill TP8 + 1 decode TP8)"}, refusal.DISAGGREGATED),
        ({"flags": "--speculative-config {}"}, refusal.SPECULATIVE),
        ({"pp": "4"}, refusal.PIPELINE),
        ({"flags": "--tp-size 8 --enable-dp-attention"}, refusal.DATA_PARALLEL),
        ({"gpu": "NVIDIA B200-SXM-180GB", "weight_dtype": "fp4"}, refusal.FOUR_BIT),
        ({"notes": "failures=4068; ignore_eos", "num_prompts": "732"}, refusal.TIMED_OUT),
        ({"input_len": "256 to 125000 sweep"}, refusal.SWEEP),
        ({"tp": ""}, refusal.PARALLELISM),
        ({"input_len": ""}, refusal.LENGTHS),
        ({"gpu": "H20"}, refusal.GPU),
        ({"model": "nobody/nothing"}, refusal.MODEL),
        ({"model": "deepseek-ai/DeepSeek-R1-0528"}, refusal.ATTENTION),
        ({"model": "meta-llama/Llama-3.1-70B"}, refusal.MEMORY),
    ],
)
def test_a_run_that_is_not_simulated_says_why(cells: dict[str, str], reason: str) -> None:
    gpu = {"gpu": "RTX 4090 24GB"} if reason == refusal.MEMORY else {}
    result = result_of(made_up(**gpu, **cells))
    assert result.refused is not None
    assert result.refused.reason == reason


def test_few_failures_are_no_reason() -> None:
    assert result_of(made_up(notes="failures=4; ignore_eos", num_prompts="500")).run


def test_limits_are_the_engines_own() -> None:
    def engine(**cells: str) -> EngineConfiguration:
        return Run.of(made_up(**cells)).engine

    vllm, sglang, tensorrt = engine(), engine(engine="sglang"), engine(engine="tensorrt-llm")
    assert (vllm.max_num_batched_tokens, vllm.max_num_seqs) == (8192, 1024)
    assert (sglang.max_num_batched_tokens, sglang.max_num_seqs) == (8192, 2048)
    assert not vllm.async_scheduling
    assert engine(engine_version="0.14.0").async_scheduling
    assert vllm.enable_prefix_caching
    small = engine(gpu="A100-SXM-80GB")
    assert (small.max_num_batched_tokens, small.max_num_seqs) == (2048, 256)
    # A block of 16 tokens of this model has 2 MiB.
    reserved = 512 + 1.5 * 8192 + 2 * 256 + 1024 / 8
    weights = weight_bytes(load_model("llama-3.1-8b"), 1, "bfloat16")
    assert sglang.num_gpu_blocks == int(load_gpu("h200").memory - reserved * 2**20 - weights) // 2**21
    half = engine(engine="tensorrt-llm", flags="kv_cache_free_gpu_mem_fraction=0.45")
    assert tensorrt.num_gpu_blocks // 2 == half.num_gpu_blocks


def test_a_profile_is_used_where_everything_matches() -> None:
    assert Run.of(made_up()).cost.source == "measured"
    assert Run.of(made_up(weight_dtype="fp8")).cost.source == "analytic"


def test_names_of_the_sources_are_in_the_catalog() -> None:
    for gpu in GPUS:
        hardware_of(made_up(gpu=gpu))
    for model in MODELS:
        assert load_model(MODELS[model])
        assert known_model(model) != MODELS[model], "the catalog knows it by this name"


def test_backlog_is_no_time_to_the_first_token() -> None:
    assert made_up().measured().ttft is None
    waits = made_up(
        arrival="closed loop", rate_or_concurrency="2 concurrency", ttft_mean_ms="", ttft_other_ms="40"
    )
    assert waits.measured() == Measured(tokens=100.0, requests=None, tpot=0.01, ttft=0.04, e2e=None)


def test_errors_are_signed_and_of_what_was_measured() -> None:
    result = result_of(made_up())
    found = Measured(tokens=120.0, requests=9.0, tpot=0.009, ttft=None, e2e=None)
    assert result.errors(found) == {"throughput": pytest.approx(0.2), "TPOT": pytest.approx(-0.1)}
    assert result.errors() == result.errors(result.found)
    by_requests = replace(result, row=made_up(out_tok_s="", req_per_s="10"))
    assert by_requests.errors(found)["throughput"] == pytest.approx(-0.1)
    assert silence(result.row) == pytest.approx(0.01)


def test_the_tables_have_a_line_for_each_row() -> None:
    results = [result_of(made_up()), result_of(made_up(id="MADE-OVER", pp="2"))]
    [line] = every_run(results).rows
    assert line[0] == "MADE-UP"
    assert len(line) == len(every_run(results).columns)
    assert [row[:3] for row in refused(results).rows] == [
        (refusal.PIPELINE, "1", "2 stages"),
        ("all", "1", ""),
    ]
    assert targets(results).rows[0][:2] == ("all that tell throughput", "1")


def test_the_page_begins_as_it_is_written() -> None:
    assert PAGE.read_text(encoding="utf-8").startswith(HEAD), COMMAND


def prepared(row: Row) -> Run | Refused:
    try:
        return Run.of(row)
    except Refused as error:
        return error


def test_every_row_is_simulated_or_refused() -> None:
    if missing():
        pytest.skip(missing())
    found = [prepared(row) for row in rows()]
    ready = [run for run in found if isinstance(run, Run)]
    reasons = [error.reason for error in found if isinstance(error, Refused)]
    assert len(found) == len(ready) + len(reasons) == 345
    assert set(reasons) <= set(refusal.KINDS)
    text = PAGE.read_text(encoding="utf-8")
    assert all(f"\n| {run.row.name} | " in text for run in ready), COMMAND
    assert f"| all | {len(reasons)} |" in text, COMMAND


@pytest.mark.parametrize("name", ["ISS-16300-b16-tp4", "GPUS-qwen3-8b-h100-latency-L119", "GPUQ-H100-awq"])
def test_a_row_is_what_would_be_written(name: str) -> None:
    if missing():
        pytest.skip(missing())
    result = result_of(next(row for row in rows() if row.name == name))
    text = PAGE.read_text(encoding="utf-8")
    for line in every_run([result]).rows:
        assert "| " + " | ".join(line) + " |" in text, COMMAND
    assert (result.variant == EQUAL) == (name == "GPUS-qwen3-8b-h100-latency-L119")


def test_causes_are_of_rows_that_are_there() -> None:
    if missing():
        pytest.skip(missing())
    assert set(CAUSES) <= {row.name for row in rows()}
