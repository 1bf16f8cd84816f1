"""What `capsim fit` says beyond the memory table, against arithmetic by hand."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from capsim.errors import BadInput
from capsim.memory.startup_log import read_startup_log
from capsim.plan.deployment import deploy, fitted
from capsim.plan.feasibility import Feasibility
from capsim.plan.fit_result import fit_result
from capsim.plan.result import not_modelled
from capsim.plan.startup import fitted_as_logged
from capsim.scenario import load

HERE = Path(__file__).parent
LOG = HERE.parent / "memory" / "logs" / "vllm-0.19.log"
FIXED = (
    "demand.synthetic.prompt_tokens={distribution: fixed, value: 1000}",
    "demand.synthetic.output_tokens={distribution: fixed, value: 201}",
    "engine.num_gpu_blocks=4051",
)
"""1,200 tokens at the end, 75 blocks; 4,050 usable blocks hold 54 of them."""
LOGGED = (
    "gpu=h100",
    "engine.gpu_memory_utilization=0.95",
    "engine.max_model_len=8192",
    "engine.max_num_seqs=1024",
    "engine.max_num_batched_tokens=8192",
    "engine.num_gpu_blocks=null",
)


def feasibility(*overrides: str) -> Feasibility:
    return Feasibility(fitted(load(HERE / "small.yaml", [*FIXED, *overrides])))


def by_name(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in rows}


def test_the_limit_is_the_cache_or_the_number_of_sequences() -> None:
    cache = feasibility("engine.max_num_seqs=60").capacity()
    assert (cache["run_at_once"], cache["limit"]) == (54, "KV cache")
    assert cache["statement"].endswith("max_num_seqs is 60")
    sequences = feasibility("engine.max_num_seqs=50").capacity()
    assert (sequences["run_at_once"], sequences["limit"]) == (50, "max_num_seqs")
    assert "would hold 54 sequences" in sequences["statement"]
    assert "but only 15 of max_model_len" in sequences["statement"]  # 4,096 tokens are 256 blocks


def test_live_tokens_and_preemption_by_hand() -> None:
    capacity = feasibility("engine.max_num_seqs=50").capacity()
    # A decode grows from 1,000 to 1,200 tokens: 1,100.5 on average, 69 blocks of 16.
    assert capacity["live_tokens_per_sequence"] == 1100.5
    assert capacity["live_bytes_per_sequence"] == 69 * 16 * 131072
    assert capacity["live_tokens"] == 50 * 1100.5
    assert capacity["share_of_pool"] == pytest.approx(50 * 69 / 4050, rel=1e-12)  # one rounding
    assert [(point["tokens"], point["above"]) for point in capacity["preemption"]] == [
        (1200, 54),
        (1200, 54),
        (4096, 15),
    ]


def test_changes_are_ranked_by_their_effect() -> None:
    rows = feasibility("engine.max_num_seqs=60").changes()
    ranks = [(row["run_at_once"], row["fit_at_once"], row["longest_at_once"]) for row in rows]
    assert ranks == sorted(ranks, reverse=True)
    found = by_name(rows)
    half = found["kv_cache_dtype fp8"]
    # A pool of the same bytes has twice the blocks, one of them the null block.
    assert half["kv_tokens"] == (2 * 4051 - 1) * 16
    assert (half["fit_at_once"], half["run_at_once"]) == (108, 60)
    shorter = found["max_model_len 1201"]
    assert (shorter["tokens_ratio"], shorter["longest_at_once"]) == (1.0, 4050 // 76)
    assert found["max_num_seqs 120"]["kv_tokens"] < 4050 * 16  # a larger sampler


def test_a_change_without_room_for_a_longest_sequence_is_left_out() -> None:
    tight = ("engine.num_gpu_blocks=257", "engine.max_num_seqs=1024")
    assert "max_num_seqs 2048" not in by_name(feasibility(*tight).changes())


def test_factors_by_hand() -> None:
    found = by_name(feasibility().factors())
    assert found["8 KV heads for 32 query heads"]["tokens_ratio"] == 4
    assert found["blocks of 16 tokens"]["concurrency_ratio"] == 1.0  # 1,200 tokens are 75 blocks
    assert found["sequences of all ages"]["concurrency_ratio"] == 1200 / 1100.5
    assert "KV cache in fp8" not in found
    coarse = by_name(feasibility("engine.block_size=128", "engine.num_gpu_blocks=600").factors())
    assert coarse["blocks of 128 tokens"]["concurrency_ratio"] == 1200 / 1280
    narrow = by_name(feasibility("engine.kv_cache_dtype=fp8").factors())
    assert narrow["KV cache in fp8"]["tokens_ratio"] == 2
    copied = by_name(feasibility("engine.tensor_parallel_size=16").factors())
    assert copied["16 GPUs hold 2 copies"]["tokens_ratio"] == 0.5


def test_factors_of_a_latent_and_of_windows() -> None:
    latent = by_name(feasibility("model=deepseek-v2-lite", "engine.tensor_parallel_size=2").factors())
    # 16 heads of 128 + 64 and 128 elements for one latent of 512 + 64.
    assert latent["one latent for all heads"]["tokens_ratio"] == 16 * 320 / 576
    assert latent["2 GPUs hold 2 copies"]["tokens_ratio"] == 0.5
    windows = by_name(feasibility("model=gpt-oss-20b").factors())
    # Half of the layers keep 128 of 4,096 tokens, and one block more.
    assert 1.9 < windows["layers with a window of 128 tokens"]["tokens_ratio"] < 2


def test_any_attention_kind_fits_without_a_step_cost() -> None:
    for model in ("deepseek-v2-lite", "gemma-3-27b", "qwen3-next-80b-a3b"):
        overrides = [f"model={model}", "engine.tensor_parallel_size=2", "step_cost={source: roofline}"]
        result = fit_result(fitted(load(HERE / "small.yaml", [*overrides, "engine.num_gpu_blocks=null"])))
        assert (result["memory"]["bytes_per_token"] is None) == (model != "deepseek-v2-lite")
        assert result["capacity"]["run_at_once"] == 64
        assert result["memory"]["kv_tokens"] > 0


def test_a_log_gives_the_blocks_and_the_signed_errors_of_the_model() -> None:
    log = read_startup_log(LOG)
    result = fit_result(fitted_as_logged(load(HERE / "small.yaml", LOGGED), log), log)
    assert result["memory"]["num_gpu_blocks"] == result["log"]["num_gpu_blocks"] == 29751
    assert result["configuration"]["engine"]["num_gpu_blocks"] == 29751
    rows = by_name(result["log"]["lines"])
    assert list(rows) == [
        "GPU memory",
        "weights",
        "activations",
        "outside PyTorch",
        "CUDA graphs",
        "KV cache",
    ]
    for row in rows.values():
        assert row["difference"] == row["model"] - row["log"]
    assert rows["weights"]["difference"] < 0
    assert result["log"]["model_num_gpu_blocks"] == pytest.approx(
        29751, rel=0.001
    )  # as the table of start-ups
    assert result["log"]["disagreements"] == []
    assert fit_result(fitted(load(HERE / "small.yaml")))["log"] is None


def test_the_same_blocks_stated_give_the_same_fingerprint_as_the_log() -> None:
    log = read_startup_log(LOG)
    logged = fitted_as_logged(load(HERE / "small.yaml", LOGGED), log)
    stated = fitted(load(HERE / "small.yaml", [*LOGGED, "engine.num_gpu_blocks=29751"]))
    assert logged.fingerprint == stated.fingerprint
    assert logged.engine == stated.engine


def test_a_log_of_ranks_compares_what_is_outside_pytorch_as_one() -> None:
    log = read_startup_log(LOG.with_name("vllm-0.11-tp2.log"))
    overrides = (
        "model=qwen3-32b",
        "gpu=h100",
        "engine.version='0.11.0'",
        "engine.tensor_parallel_size=2",
        "engine.max_model_len=16000",
        "engine.max_num_seqs=1024",
        "engine.max_num_batched_tokens=8192",
    )
    result = fit_result(fitted_as_logged(load(HERE / "small.yaml", overrides), log), log)
    row = by_name(result["log"]["lines"])["outside PyTorch and communication"]
    assert row["log"] == round(0.54 * 2**30)
    assert abs(row["difference"]) < 0.02 * 2**30  # two digits


def test_a_log_of_other_settings_is_refused_with_the_changes_that_agree() -> None:
    log = read_startup_log(LOG)
    scenario = load(HERE / "small.yaml", ["engine.version=0.24.1", "engine.kv_cache_dtype=fp8"])
    with pytest.raises(BadInput) as caught:
        fitted_as_logged(scenario, log)
    said = str(caught.value)
    for change in (
        "version=0.19.0",
        "kv_cache_dtype=auto",
        "max_model_len=8192",
        "max_num_batched_tokens=8192",
        "gpu_memory_utilization=0.95",
    ):
        assert f"--set engine.{change}," in said
    assert "tensor_parallel_size" not in said
    same = load(HERE / "small.yaml", [*LOGGED, "engine.version=0.19.3", "engine.kv_cache_dtype=bfloat16"])
    assert fitted_as_logged(same, log).memory.num_gpu_blocks == 29751


def test_kernels_launched_one_by_one_are_said_not_to_be_modelled() -> None:
    deployment = deploy(load(HERE / "small.yaml"))
    engine = replace(deployment.scenario.engine, enforce_eager=True)
    eager = replace(deployment, scenario=replace(deployment.scenario, engine=engine))
    assert len(not_modelled(eager)) == len(not_modelled(deployment)) + 1
    assert any("enforce_eager" in sentence for sentence in not_modelled(eager))
